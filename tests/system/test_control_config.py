# SPDX-License-Identifier: Apache-2.0
"""Proves: a configuration given over MQTT comes into force whole or not at all, says what is wrong with it, goes away again
by itself unless it is confirmed over a connection made since; keys and passwords never come out; what a configuration no
longer says has its standard again."""
import base64
import hashlib
import io
import json
import os
import struct
import subprocess
import tarfile
import time

import pytest

import lab
from lab import BROKER
from test_console import Console

CONFIG = f"""
network {BROKER}/24
console_user client
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
    folder = tmp_path_factory.mktemp("config")
    (folder / "conf").mkdir()
    subprocess.run(["mosquitto_passwd", "-b", "-c", folder / "conf/pw", "admin", "s3cret"], check=True)
    b = lab.Broker(str(folder), pki, config=CONFIG)
    assert lab.ping()
    yield b
    assert b.stop() == 0


@pytest.fixture
def console(broker, pki):
    c = Console(pki)
    yield c
    c.close()
    c = Console(pki)
    c.ask("configRollback")
    c.close()


def bundle(conf, **files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in (("urmqtt.conf", conf.encode()), *files.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put(console, tar, piece=11000, sha256=None, **fields):
    sha256 = sha256 or hashlib.sha256(tar).hexdigest()
    for off in range(0, len(tar), piece):
        answer = console.ask("configPut", length=len(tar), sha256=sha256, offset=off,
                             chunk=base64.b64encode(tar[off:off + piece]).decode(), **fields)
        if "error" in answer:
            break
    return answer


def packet_max():
    """The ceiling that a CONNACK tells (property 0x27); None: it tells none."""
    raw = lab.Raw().open("probe")
    at = raw.connack.find(b"\x27", 3)
    raw.close()
    return struct.unpack(">I", raw.connack[at + 1:at + 5])[0] if at > 0 else None


def read(console, name):
    out, length = b"", 1
    while len(out) < length:
        data = console.ask("configGet", file=name, offset=len(out))["data"]
        out, length = out + base64.b64decode(data["chunk"]), data["length"]
    return out


def test_reading(console, broker, pki):
    files = {f["file"]: f for f in console.ask("configGet")["data"]["files"]}
    assert set(files) == {"urmqtt.conf", "pw", "ca.pem", "server.pem", "server.key"}
    assert {n for n, f in files.items() if f["secret"]} == {"pw", "server.key"} and "sha256" not in files["pw"]
    assert read(console, "urmqtt.conf").decode() == CONFIG
    assert files["urmqtt.conf"]["sha256"] == hashlib.sha256(CONFIG.encode()).hexdigest()
    for name in ("pw", "server.key"):
        assert "not shown" in console.ask("configGet", file=name)["error"]
    assert "no such file" in console.ask("configGet", file="nothing")["error"]
    assert "no such file" in console.ask("configGet", file="x" * 300)["error"]
    assert "behind" in console.ask("configGet", file="ca.pem", offset=1000000)["error"]


def test_confirmed(console, broker, pki):
    usual = packet_max()
    answer = put(console, bundle(CONFIG + "max_packet_size 54321\n"), piece=300)
    assert "error" not in answer and answer["data"]["trialSeconds"] == 120, answer
    assert packet_max() == 54321 != usual
    diff = console.ask("configDiff")["data"]
    assert diff["files"] == [{"file": "urmqtt.conf", "change": "changed"}]
    assert diff["lines"] == ["+max_packet_size 54321"]
    assert "on trial" in put(console, bundle(CONFIG))["error"]
    broker.type("reload")
    broker.wait("nothing was changed: a configuration is on trial")
    assert "connection made since" in console.ask("configConfirm")["error"]
    assert packet_max() == 54321
    fresh = Console(pki)
    assert "error" not in fresh.ask("configConfirm")
    assert "no configuration is on trial" in fresh.ask("configConfirm")["error"]
    fresh.close()
    assert packet_max() == 54321 and "max_packet_size" in read(console, "urmqtt.conf").decode()
    assert "error" not in console.ask("reload")  # from the folder: what was given is gone
    assert packet_max() == usual


def test_not_confirmed(console, broker):
    usual = packet_max()
    assert "error" not in put(console, bundle(CONFIG + "max_packet_size 5432\n"), seconds=1)
    assert packet_max() == 5432
    broker.wait("the one before comes back: nobody confirmed it", 5)
    assert packet_max() == usual and read(console, "urmqtt.conf").decode() == CONFIG


def test_taken_back(console):
    usual = packet_max()
    assert "error" not in put(console, bundle(CONFIG + "max_packet_size 5432\n"))
    assert any("comes back" in line for line in console.ask("configRollback")["data"]["lines"])
    assert packet_max() == usual
    assert "no configuration is on trial" in console.ask("configRollback")["error"]


def test_locked_out(console, broker, pki):
    """Nobody can get in any more; then everybody can again. The one who asked is ended with the rest."""
    other = open(os.path.join(pki, "other.pem"), "rb").read()
    conf = CONFIG.replace("ca.pem", "other.pem").replace("listener 1883\nallow_anonymous true", "")
    tar = bundle(conf, **{"other.pem": other})
    console.c.reconnect_delay_set(1, 1)
    for off in range(0, len(tar), 11000):
        console.c.publish("$CONTROL/urmqtt/v1", json.dumps({"commands": [{
            "command": "configPut", "length": len(tar), "sha256": hashlib.sha256(tar).hexdigest(), "offset": off,
            "chunk": base64.b64encode(tar[off:off + 11000]).decode(), "seconds": 2}]}), 1)
    broker.wait("on trial for 2 seconds", 5)
    broker.wait("reload: done; [1-9]")
    for tls in (None, lab.context(pki, "client")):
        try:
            answer = lab.Raw(tls=tls).send(lab.connect("x")).receive()  # with TLS 1.3 refused behind the handshake
        except OSError:
            answer = None
        assert answer is None
    time.sleep(2.5)
    fresh = Console(pki)
    assert read(fresh, "urmqtt.conf").decode() == CONFIG
    fresh.close()


def test_with_errors(console):
    usual = packet_max()
    for conf, what in ((CONFIG + "frobnicate 1\n", "urmqtt.conf:14: error:"), ("listener 70000\n", "urmqtt.conf:2: error:"),
                       (CONFIG.replace("server.pem", "ca.pem"), "error:"),
                       (CONFIG.replace("server.key", "nothing.key"), "nothing.key")):
        answer = put(console, bundle("max_packet_size 5432\n" + conf))
        assert "nothing was changed" in answer["error"], answer
        assert any(what in line for line in answer["data"]["lines"]), (what, answer)
        assert packet_max() == usual
    assert "no configuration is on trial" in console.ask("configDiff")["error"]
    damaged = bytearray(bundle(CONFIG))
    damaged[10] ^= 1
    answer = put(console, bytes(damaged))
    assert "nothing was changed" in answer["error"] and "damaged" in " ".join(answer["data"]["lines"])


def test_pieces(console, broker, pki):
    tar = bundle(CONFIG)
    good = hashlib.sha256(tar).hexdigest()
    chunk = base64.b64encode(tar[:5000]).decode()
    for fields, what in (({"length": 1}, "length"), ({"length": 1 << 21}, "length"), ({"sha256": "x"}, "sha256"),
                         ({"sha256": good.upper()}, "sha256"), ({"offset": 100}, "not the next"), ({"offset": -1}, "not the next"),
                         ({"chunk": "!"}, "chunk"), ({"chunk": ""}, "chunk"), ({"chunk": 7}, "chunk"),
                         ({"length": 600}, "chunk")):
        asked = {"length": len(tar), "sha256": good, "offset": 0, "chunk": chunk, **fields}
        assert what in console.ask("configPut", **asked)["error"], fields
    first = {"length": len(tar), "sha256": good, "offset": 0, "chunk": chunk}
    assert console.ask("configPut", **first)["data"] == {"received": 5000}
    other = Console(pki)
    assert "not the next" in other.ask("configPut", **{**first, "offset": 5000})["error"]  # somebody else's
    other.close()
    assert "do not have this sha256" in put(console, tar, sha256="0" * 64)["error"]
    assert "Invalid seconds" in put(console, tar, seconds=601)["error"]
    end = 512 + len(CONFIG)  # of the only file; what follows is padding and the archive's end
    for cut in (512, 1000, end - 200, end - 1):
        if cut < end:
            assert "nothing was changed" in put(console, tar[:cut])["error"], cut
    for cut in (end, end + 1, 1024, 1025, 1536, len(tar) - 1):
        if cut >= end:
            assert "error" not in put(console, tar[:cut]), cut
            assert "error" not in console.ask("configRollback")


def test_without_urmqtt_conf(console, pki):
    """Files alone: the rest is that of the one in use."""
    pem = open(os.path.join(pki, "server.pem"), "rb").read()
    tar = bundle("", **{"server.pem": b"# the same one\n" + pem})
    assert "error" not in put(console, tar[1024 - 512:])  # without its first header: urmqtt.conf is empty
    assert [f["file"] for f in console.ask("configDiff")["data"]["files"]] == ["server.pem"]
    assert "error" not in console.ask("configRollback")
    assert "error" not in put(console, b"\0" * 1024)


def test_as_large_as_can_be(console):
    for size, fits in (((1 << 20) - 20 * 1024, True), ((1 << 20) - 4096, False), ((1 << 20) - 2048, False)):
        answer = put(console, bundle(CONFIG, big=b"x" * size)[:1 << 20], piece=11500)
        assert ("error" not in answer) if fits else ("no room" in answer["error"]), answer
        assert ("error" not in console.ask("configRollback")) is fits
    assert "length" in put(console, b"x" * ((1 << 20) + 1))["error"]


def test_a_secret_stays_one(console, pki):
    """The file is in the bundle still, and nothing names it any more."""
    assert "error" not in put(console, bundle(CONFIG.replace("password_file pw\n", "")))
    assert "not shown" in console.ask("configGet", file="pw")["error"]
    key = open(os.path.join(pki, "client.key"), "rb").read()
    console.ask("configRollback")
    assert "error" not in put(console, bundle(CONFIG, spare=b"text before\n" + key))
    assert "not shown" in console.ask("configGet", file="spare")["error"]


def test_confirm_that_was_sent_before(console, broker):
    """Sent right behind the last piece over the same connection: it is refused, whenever it is read."""
    tar = bundle(CONFIG + "max_packet_size 5432\n")
    whole = {"command": "configPut", "length": len(tar), "sha256": hashlib.sha256(tar).hexdigest(), "offset": 0,
             "chunk": base64.b64encode(tar).decode(), "seconds": 5}
    answer = console.raw(json.dumps({"commands": [whole, {"command": "configConfirm"}]}))
    assert "error" not in answer[0] and "connection made since" in answer[1]["error"]
    assert "error" not in console.ask("configRollback")
    console.c.publish("$CONTROL/urmqtt/v1", json.dumps({"commands": [whole]}), 1)
    console.c.publish("$CONTROL/urmqtt/v1", '{"commands":[{"command":"configConfirm"}]}', 1)
    time.sleep(0.5)
    texts = [json.loads(p)["responses"][0] for _, p in console.answers]
    assert any(a["command"] == "configConfirm" and "connection made since" in a["error"] for a in texts), texts
