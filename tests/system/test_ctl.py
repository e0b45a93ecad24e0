# SPDX-License-Identifier: Apache-2.0
"""Proves: urmqttctl does over mTLS and by password what the console over MQTT offers; tables are aligned and nothing in
them reaches a terminal as a control character; every page of a list is fetched; it ends with 0, 1 and 2 as documented and
says what and where."""
import json
import os
import signal
import subprocess
import time

import pytest

import lab
from lab import BROKER

CTL = os.path.join(lab.BUILD, "tools/urmqttctl")
CONFIG = f"""
network {BROKER}/24
console_user client
console_user admin
password_file pw
listener 1883
allow_anonymous true
listener 8883
cafile ca.pem
certfile server.pem
keyfile server.key
require_certificate true
use_identity_as_username true
"""


@pytest.fixture(scope="module")
def broker(namespace, pki, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ctl")
    (folder / "conf").mkdir()
    subprocess.run(["mosquitto_passwd", "-b", "-c", folder / "conf/pw", "admin", "s3cret"], check=True)
    b = lab.Broker(str(folder), pki, config=CONFIG)
    assert lab.ping()
    yield b
    assert b.stop() == 0


def bare(*args, **env):
    return subprocess.run([CTL, *args], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL,
                          env={**os.environ, **env})


@pytest.fixture
def tls(broker, pki):
    return ["-h", BROKER, *(x for o, f in (("--cafile", "ca.pem"), ("--cert", "client.pem"), ("--key", "client.key"))
                            for x in (o, os.path.join(pki, f)))]


@pytest.fixture
def ctl(tls):
    def run(*args, code=0):
        p = bare(*tls, *args)
        assert p.returncode == code, p.stdout + p.stderr
        return p.stdout if code == 0 else p.stderr
    run.bare = lambda *args: bare(*tls, *args)
    return run


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_a_client(ctl):
    raw = lab.Raw().open("watched", keep_alive=77)
    raw.send(lab.subscribe("a/+/c", 1) + lab.subscribe("$share/g/x/#", 2, pid=2))
    assert raw.receive()[0] == 0x90 and raw.receive()[0] == 0x90
    one = dict(line.split(None, 1) for line in ctl("client", "watched").splitlines())
    assert one["clientid"] == "watched" and one["keepAlive"] == "77" and one["tls"] == "no"
    subs = ctl("subscriptions", "watched")
    assert ["a/+/c", "1", "-"] in [r[:3] for r in rows(subs)] and ["x/#", "2", "g"] in [r[:3] for r in rows(subs)]
    lines = subs.splitlines()
    assert {line[lines[0].index("GROUP") - 1] for line in lines} == {" "}  # one column begins in one place
    assert "queue full  " in ctl("drops", "watched")
    assert json.loads(ctl("--json", "client", "watched"))["subscriptions"] == 2
    assert ctl("kick", "watched") == ""
    first, body = raw.receive()
    assert first == 0xe0 and body[0] == 0x98
    error = ctl("kick", "watched", code=1)
    assert error == f"urmqttctl: {BROKER}:8883: watched: Client is not connected\n"


def test_every_page(ctl):
    many = [lab.Raw().open(f"page{i}") for i in range(130)]
    seen = [r[0] for r in rows(ctl("clients"))]
    assert len(seen) == len(set(seen)) and {f"page{i}" for i in range(130)} <= set(seen)
    lines = [json.loads(line) for line in ctl("--json", "clients").splitlines()]
    assert {c["clientid"] for c in lines} >= {f"page{i}" for i in range(130)}
    for r in many:
        r.close()


def test_pages_that_are_too_long_for_an_answer(ctl):
    raw = lab.Raw().open("long")
    for i in range(1, 60):
        raw.send(lab.subscribe(f"{i}/" + "x" * 3000, 0, pid=i))
        assert raw.receive()[0] == 0x90
    assert len(ctl("subscriptions", "long").splitlines()) == 60
    raw.close()


def test_sessions_without_a_connection(ctl):
    raw = lab.Raw().open("sleeper", expiry=100)
    raw.close()
    deadline = time.time() + 5
    while "sleeper" in ctl("clients") and time.time() < deadline:
        time.sleep(0.1)
    assert "sleeper" not in ctl("clients") and "sleeper" in ctl("clients", "--all")


def test_a_terminal_obeys_nobody(ctl):
    raw = lab.Raw().open("red")
    raw.send(lab.subscribe("x/\x1b[31m\x9b/\\", 0))
    if raw.receive()[0] == 0x90:
        text = ctl("subscriptions", "red")
        assert "x/\\x1b[31m\\x9b/\\\\" in text and "\x1b" not in text and "\x9b" not in text
    raw.close()


def test_the_broker(ctl):
    assert "urmqtt_clients_connected " in ctl("metrics")
    assert rows(ctl("bridges")) == [["BRIDGE", "CONN", "ATTEMPTS", "IN", "OUT", "DROPPED", "LAST"]]
    assert ["listClients", "sessions:"] in [r[:2] for r in rows(ctl("commands"))]
    assert "kickClient" in json.dumps([json.loads(line) for line in ctl("commands", "--json").splitlines()])
    logs = ctl("logs")
    assert "ready: mqtts" in logs and "console: getMetrics by client" in logs
    last = json.loads(ctl("logs", "--json").splitlines()[-1])["number"]
    assert "ready: mqtts" not in ctl("logs", "--since", str(last))
    assert "getLogs says why" in ctl("reload", code=1)  # nothing has changed


def test_following_the_log(ctl, tls, broker):
    before = ctl("logs").count("getLogs by client")
    p = subprocess.Popen([CTL, *tls, "logs", "-f", "--since", "1"], stdout=subprocess.PIPE, text=True)
    time.sleep(2.5)
    assert ctl("logs").count("getLogs by client") <= before + 2  # asking each second does not fill the log
    ctl("kick", "nobody-at-all", code=1)
    time.sleep(1.5)
    p.send_signal(signal.SIGINT)
    text, _ = p.communicate(timeout=10)
    assert p.returncode == 0 and "ready: mqtts" in text and "kickClient by client" in text


def test_reload(ctl, broker):
    broker.configure(CONFIG + "max_queued_messages 500\n")
    assert ctl("reload") == "reloaded\n"
    broker.configure(CONFIG)
    assert ctl("reload") == "reloaded\n"


def test_config(ctl, broker, pki, tmp_path):
    """Down into a folder, changed, up again, on trial, taken back, confirmed; keys stay on the broker."""
    shown = ctl("config", "show")
    assert ["server.key", "yes", "-"] in [[r[0], *r[2:]] for r in rows(shown)] and "on trial" not in shown
    folder = tmp_path / "got"
    assert "server.key: stays there" in ctl("config", "get", str(folder))
    assert {p.name for p in folder.iterdir()} == {"urmqtt.conf", "ca.pem", "server.pem"}
    assert (folder / "urmqtt.conf").read_text() == CONFIG
    assert (folder / "ca.pem").read_bytes() == open(os.path.join(pki, "ca.pem"), "rb").read()
    assert "got: File exists" in ctl("config", "get", str(folder), code=1)  # nothing is overwritten
    (folder / "urmqtt.conf").write_text(CONFIG + "frobnicate 1\n")
    p = ctl.bare("config", "put", str(folder))
    assert p.returncode == 1 and "urmqtt.conf:14: error:" in p.stdout and "nothing was changed" in p.stderr
    (folder / "urmqtt.conf").write_text(CONFIG + "max_queued_messages 77\n# " + "x" * 50000 + "\n")
    assert "on trial for 60 seconds" in ctl("config", "put", str(folder), "--seconds", "60")
    assert "on trial for" in ctl("config", "show")
    diff = ctl("config", "diff").splitlines()
    assert diff[1].split() == ["urmqtt.conf", "changed"] and "+max_queued_messages 77" in diff
    again = tmp_path / "again"
    ctl("config", "get", str(again))
    assert (again / "urmqtt.conf").read_bytes() == (folder / "urmqtt.conf").read_bytes()  # in several pieces
    assert "comes back" in ctl("config", "rollback")
    assert "no configuration is on trial" in ctl("config", "diff", code=1)
    ctl("config", "put", str(folder))
    assert ctl("config", "confirm").startswith("confirmed")  # each call is a connection of its own
    (folder / "urmqtt.conf").write_text(CONFIG)
    assert "confirmed" in ctl("config", "put", "--confirm", str(folder))
    for args, what in ((["config"], "wants show"), (["config", "x"], "wants show"), (["config", "put"], "one folder"),
                       (["config", "show", "x"], "nothing more")):
        p = bare(*args)
        assert p.returncode == 2 and what in p.stderr
    assert "/nowhere" in ctl("config", "put", "/nowhere", code=1)


def test_by_password(broker):
    at = ("-h", BROKER)
    assert bare(*at, "-u", "admin", "-P", "s3cret", "clients").returncode == 0
    assert bare(*at, "-u", "admin", "clients", URMQTT_PASSWORD="s3cret").returncode == 0
    p = bare(*at, "-u", "admin", "-P", "wrong", "clients")
    assert p.returncode == 1 and f"{BROKER}:1883: the broker refused: " in p.stderr and "wrong" not in p.stderr
    p = bare(*at, "clients")
    assert p.returncode == 1 and "console_user" in p.stderr


def test_wrong_usage(broker, pki):
    for args, what in (([], "COMMAND: is missing"), (["frobnicate"], "frobnicate: is no command"),
                       (["client"], "wants one client ID"), (["clients", "x"], "wants nothing more"),
                       (["-p", "70000", "clients"], "-p: "), (["--nonsense"], "nonsense"),
                       (["--cert", "x", "clients"], "--key"), (["-P", "x", "clients"], "wants -u"),
                       (["logs", "--since", "-1"], "--since"), (["kick", b"\xff"], "UTF-8")):
        p = bare(*args)
        assert p.returncode == 2 and what in p.stderr and "usage:" in p.stderr, (args, p.stderr)
    p = bare("--help")
    assert p.returncode == 0 and p.stdout.startswith("usage:") and p.stderr == ""


def test_what_fails_says_where(broker, pki):
    p = bare("-h", BROKER, "-p", "1999", "clients")
    assert p.returncode == 1 and f"{BROKER}:1999: Connection refused" in p.stderr
    p = bare("-h", BROKER, "--cafile", "/nowhere/ca.pem", "clients")
    assert p.returncode == 1 and "/nowhere/ca.pem: No such file" in p.stderr
    p = bare("-h", BROKER, "--cafile", os.path.join(pki, "other.pem"), "clients")
    assert p.returncode == 1 and f"{BROKER}:8883: " in p.stderr and "certificate" in p.stderr


def test_trace(ctl, tls, broker):
    raw = lab.Raw().open("traced")
    p = subprocess.Popen([CTL, *tls, "trace", "traced", "--seconds", "1"], stdout=subprocess.PIPE, text=True)
    broker.wait("console: traceClient by client")
    raw.send(lab.subscribe("t/#", 1, pid=5) + b"\xc0\x00")
    text, _ = p.communicate(timeout=10)
    lines = [line.split() for line in text.splitlines()]
    assert p.returncode == 0 and lines[0][1:] == ["in", "SUBSCRIBE", "flags", "2", "packetId", "5", "topic", "t/#", "length", "11"]
    assert ["out", "PINGRESP", "length", "2"] in [r[1:] for r in lines] and text.endswith('{"end":"the time is over"}\n')
    raw.close()
