# SPDX-License-Identifier: Apache-2.0
"""Proves: the $SYS tree is whole, changes with what happens, is never negative, is seen by who asks for it and by nobody
else, and nobody can write it; reload swaps certificates, CA and CRL, opens and closes listeners, ends only who is no longer
allowed, and changes nothing when there is a mistake; the console takes commands; a certificate that ends soon is told."""
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time

import pytest

import lab
from lab import BROKER, CONFIG, PING, Raw, connect, publish, subscribe

LOAD = [f"load/{name}/{window}" for window in ("1min", "5min", "15min")
        for name in ("messages/received", "messages/sent", "publish/dropped", "publish/received", "publish/sent",
                     "bytes/received", "bytes/sent", "sockets", "connections")]
MOSQUITTO = LOAD + [
    "version", "uptime", "clients/total", "clients/maximum", "clients/connected", "clients/disconnected", "clients/active",
    "clients/inactive", "messages/received", "messages/sent", "messages/stored", "store/messages/count",
    "store/messages/bytes", "subscriptions/count", "retained messages/count", "heap/current", "heap/maximum",
    "bytes/received", "bytes/sent", "publish/messages/dropped", "publish/messages/received", "publish/messages/sent",
    "connections/socket/count",
    "mqtt/connect/received", "mqtt/connack/sent", "mqtt/publish/sent", "mqtt/disconnect/sent", "clients/expired", "publish/bytes/received", "publish/bytes/sent", "shared_subscriptions/count", "packet/out/count", "packet/out/bytes"]
OURS = ["time", "publish/messages/dropped/queue full", "retained messages/bytes", "tls/handshakes", "tls/resumed", f"tls/{lab.TLS}/certificate/days", f"tls/{lab.TLS}/ca/days"]


def messages(raw, seconds):
    """What arrives within the time: topic -> (retain, payload)."""
    got, end = {}, time.time() + seconds
    while time.time() < end:
        if not raw.buffer and not select.select([raw.s], [], [], 0.1)[0]:
            continue
        first, body = raw.receive()
        if first >> 4 != 3:
            continue
        n = int.from_bytes(body[:2], "big")
        rest = body[2 + n + (2 if first & 6 else 0):]
        got[body[2:2 + n].decode()] = (bool(first & 1), rest[1 + rest[0]:].decode())
    return got


def watch(qos=0):
    return Raw().open("watch").send(subscribe("$SYS/#", qos))


def openssl(folder, *args):
    subprocess.run(["openssl", *args], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# --- $SYS

def test_the_tree(start, pki):
    b = start(config="sys_interval 1\n" + CONFIG)
    assert lab.ping()
    everything = Raw().open("all").send(subscribe("#", 0))
    tls = Raw(lab.context(pki)).open("tls")
    got = messages(watch(), 1.5)
    missing = [t for t in MOSQUITTO + OURS if f"$SYS/broker/{t}" not in got]
    assert not missing
    assert got["$SYS/broker/version"][1].startswith("urMQTT version ")
    assert re.fullmatch(r"\d+ seconds", got["$SYS/broker/uptime"][1])
    for topic, (_, value) in got.items():
        assert re.fullmatch(r"\d+|\d+\.\d\d|\d+ seconds|urMQTT .*", value), (topic, value)
    assert got["$SYS/broker/tls/handshakes"][1] == "1" and got[f"$SYS/broker/tls/{lab.TLS}/ca/days"][1] in ("29", "30")
    for i in range(5):  # sockets that never become clients count as sockets
        Raw().close()
    tls.send(publish("x", b"1", 1)).receive()
    tls.close()
    got = messages(Raw().open("watch").send(subscribe("$SYS/#", 0)), 2.5)
    assert got["$SYS/broker/clients/connected"][1] == "2" and got["$SYS/broker/clients/disconnected"][1] == "0"
    assert got["$SYS/broker/publish/messages/received"][1] == got["$SYS/broker/mqtt/publish/received"][1] == "1"
    assert got["$SYS/broker/mqtt/connect/received"][1] == got["$SYS/broker/mqtt/connack/sent"][1] == "4"
    assert float(got["$SYS/broker/load/publish/received/1min"][1]) > 0.5
    # Who asked for '#' got what was published, and nothing of $SYS [MQTT-4.7.2-1].
    assert messages(everything, 1) == {"x": (False, "1")}
    # Once quiet, only what changes is published again.
    again = messages(watch(), 0.5) and messages(Raw().open("second").send(subscribe("$SYS/broker/version", 0)), 2)
    assert again["$SYS/broker/version"][0] is True, "retained, once"
    assert b.stop() == 0


def test_it_is_not_writable(start):
    b = start(config="sys_interval 1\n" + CONFIG)
    assert lab.ping()
    r = Raw().open("writer").send(publish("$SYS/broker/version", b"mine", 1, retain=True))
    first, body = r.receive()
    assert first == 0x40 and body[2] == 0x87
    will = Raw().send(connect("will", will=("$SYS/broker/uptime", b"never")))
    first, body = will.receive()
    will.kill()
    time.sleep(0.3)
    got = messages(watch(), 1)
    assert got["$SYS/broker/version"][1].startswith("urMQTT") and "never" not in got["$SYS/broker/uptime"][1]
    assert b.stop() == 0


def test_no_interval_no_tree(start):
    b = start(config="sys_interval 0\n" + CONFIG)
    assert lab.ping()
    assert messages(watch(), 1.5) == {}
    b.configure("sys_interval 1\n" + CONFIG)
    b.type("reload")
    b.wait("reload: done")
    assert "$SYS/broker/uptime" in messages(watch(), 2.5)
    assert b.stop() == 0


# --- reload

def refused(port=None):
    try:
        return Raw(port=port).send(connect("refused")).receive() is None
    except OSError:
        return True


def told(raw, reason):
    """DISCONNECT with this reason comes next (perhaps with a text)."""
    first, body = raw.receive()
    return first == 0xe0 and body[:1] == reason


def alive(raw):
    raw.send(PING)
    return raw.receive() == (0xd0, b"")


def test_reload_drops_only_who_is_not_allowed(start, pki, tmp_path):
    openssl(pki, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "bad.key")
    openssl(pki, "req", "-new", "-key", "bad.key", "-subj", "/CN=bad", "-out", "bad.csr")
    openssl(pki, "x509", "-req", "-in", "bad.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "9",
            "-out", "bad.pem")
    b = start()
    assert lab.ping()
    plain, good, bad = Raw().open("plain"), Raw(lab.context(pki)).open("good"), Raw(lab.context(pki, "bad")).open("bad")
    # A CRL that revokes one of them, and a new server certificate.
    (tmp_path / "ca.cnf").write_text("[ca]\ndefault_ca=d\n[d]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n"
                                     "default_crl_days=9\n")
    (tmp_path / "index").write_text("")
    (tmp_path / "number").write_text("01\n")
    ca = ("-config", "ca.cnf", "-cert", f"{pki}/ca.pem", "-keyfile", f"{pki}/ca.key")
    openssl(tmp_path, "ca", *ca, "-revoke", f"{pki}/bad.pem")
    openssl(tmp_path, "ca", *ca, "-gencrl", "-out", os.path.join(b.conf, "crl.pem"))
    openssl(pki, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "25",
            "-extfile", "ext", "-out", os.path.join(b.conf, "server.pem"))
    before = good.s.getpeercert(True)
    b.configure(CONFIG + "crlfile crl.pem\n")
    b.p.send_signal(signal.SIGHUP)
    b.wait("reload: done; 1 connections")
    assert told(bad, b"\x87") and bad.receive() is None
    assert alive(plain) and alive(good)
    fresh = Raw(lab.context(pki)).open("fresh")
    assert fresh.s.getpeercert(True) != before
    with pytest.raises(Exception):
        Raw(lab.context(pki, "bad")).open("bad")
    b.wait("listener 8883: the CRL ends soon")
    assert alive(plain) and alive(good) and alive(fresh)
    assert b.stop() == 0


def test_reload_with_a_mistake_changes_nothing(start, pki):
    b = start()
    assert lab.ping()
    a, t = Raw().open("a"), Raw(lab.context(pki)).open("t")
    b.configure(CONFIG + "listener 1885\nallow_anonymous perhaps\n")
    b.type("reload")
    b.wait(r"urmqtt.conf:12: error: allow_anonymous")
    b.wait("nothing was changed")
    assert refused(1885)
    b.lines.clear()
    shutil.copy(f"{pki}/client.key", os.path.join(b.conf, "server.key"))  # the key of another certificate
    b.configure(CONFIG + "listener 1885\n")
    b.type("reload")
    b.wait("server.key.*error: key does not match")
    b.wait("nothing was changed")
    assert refused(1885)
    assert alive(a) and alive(t) and alive(Raw(lab.context(pki)).open("u"))
    b.lines.clear()
    os.remove(os.path.join(b.conf, "server.pem"))
    b.type("reload")
    b.wait("nothing was changed")
    assert alive(a) and alive(t)
    assert b.stop() == 0


def login(user, password, client_id="login"):
    body = lab.utf8("MQTT") + b"\4\xc2\0\x3c" + lab.utf8(client_id) + lab.utf8(user) + lab.utf8(password)
    return Raw().send(lab.packet(0x10, body))


def test_reload_of_passwords_and_acl(start, tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()

    def passwords(**users):
        for k, (user, password) in enumerate(users.items()):
            subprocess.run(["mosquitto_passwd", *(["-c"] if k == 0 else []), "-b", conf / "pw.new", user, password], check=True)
        os.replace(conf / "pw.new", conf / "pw")

    passwords(ann="a", bob="b", cid="c")
    kept = next(line for line in open(conf / "pw") if line.startswith("ann"))
    (conf / "acl").write_text("user ann\ntopic readwrite #\nuser bob\ntopic readwrite #\nuser cid\ntopic readwrite #\n")
    text = f"network {BROKER}/24\nlistener 1883\npassword_file pw\nacl_file acl\n"
    b = start(config=text)
    assert lab.ping()
    clients = {user: login(user, password, user) for user, password in (("ann", "a"), ("bob", "b"), ("cid", "c"))}
    for c in clients.values():
        assert c.receive() == (0x20, b"\0\0")
        c.send(subscribe("t", 0, version=4)).receive()
    # bob is gone, cid has another password, ann may only read: her entry and her connection stay.
    passwords(cid="other")
    with open(conf / "pw", "a") as f:
        f.write(kept)
    (conf / "acl").write_text("user ann\ntopic read t\n")
    b.type("reload")
    b.wait("reload: done; 2 connections")
    assert clients["bob"].receive() is None and clients["cid"].receive() is None
    ann = clients["ann"]
    assert alive(ann)
    assert ann.send(publish("t", b"x", 1, version=4)).receive() == (0x40, b"\0\1") and ann.silent()
    again = login("cid", "other", "cid")
    assert again.receive() == (0x20, b"\0\0")
    assert login("bob", "b", "bob").receive() == (0x20, b"\0\5")
    # A line that is wrong changes nothing.
    b.lines.clear()
    (conf / "acl").write_text("user ann\ntopic everything t\nnonsense\n")
    b.type("reload")
    b.wait("acl:[23]: error")
    b.wait("nothing was changed")
    assert alive(ann) and alive(again)
    assert b.stop() == 0


def test_reload_after_a_start_with_mistakes(start):
    b = start(config="sys_interval 1\n" + CONFIG + "nonsense 1\n", ready="ping and nothing else")
    b.wait("network 0: 10")
    assert lab.ping() and refused()
    b.configure("sys_interval 1\n" + CONFIG)
    b.type("reload")
    b.wait("listener 1883 is new")
    b.wait("reload: done")
    assert "$SYS/broker/uptime" in messages(watch(), 2.5)
    assert b.stop() == 0


def test_reload_opens_and_closes_listeners(start):
    b = start()
    assert lab.ping()
    a = Raw().open("a")
    b.configure(CONFIG + "listener 1885\nmax_qos 1\n")
    b.type("reload")
    b.wait("listener 1885 is new")
    c = Raw(port=1885).open("c")
    assert alive(a) and alive(c)
    b.lines.clear()
    b.type("reload")
    b.wait("has not changed")
    b.configure(f"network {BROKER}/24\nallow_anonymous true\nlistener 1885\nmax_packet_size 100\n")
    b.type("reload")
    b.wait("reload: done; 1 connections")
    assert told(a, b"\x87") and alive(c)
    assert refused()
    assert told(c.send(publish("t", bytes(200))), b"\x95")
    for n in range(20):  # memory of what was replaced is given back
        b.lines.clear()
        b.configure(f"# {n}\n" + CONFIG + "listener 1885\n")
        b.type("reload")
        b.wait("reload: done; 0 connections")
    assert alive(Raw().open("e"))
    assert b.stop() == 0


def test_listener_address_and_versions(start):
    b = start(config=CONFIG + f"listener 1885 {BROKER}\naccept_protocol_versions 5\nlistener 1886 10.9.0.77\n")
    assert lab.ping()
    assert alive(Raw(port=1885).open("five"))
    old = Raw(port=1885).send(connect("four", version=4))
    assert old.receive() == (0x20, b"\0\x01") and old.receive() is None
    assert refused(1886)
    assert b.stop() == 0


# --- the console

def test_console(start):
    b = start()
    assert lab.ping()
    b.type("")
    b.type("what")
    b.wait("no such command")
    b.type("x" * 500)
    b.type("help")
    b.wait("poweroff")
    b.type("status")
    b.wait("0 connections, 0 clients connected")
    a = Raw().open("a")
    b.type("quit")
    assert told(a, b"\x8b")
    assert b.p.wait(20) == 0


def test_expiry_is_told_at_the_start(start, pki):
    b = start()
    b.wait("listener 8883: the server certificate ends soon")
    b.wait("listener 8883: a CA ends soon")
    assert b.stop() == 0


# --- TLS keywords

def test_capath_and_dates(start, pki, tmp_path):
    """A folder of CAs, one file each; a client whose certificate has ended comes in only where dates are not checked."""
    (tmp_path / "ca.cnf").write_text("[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\n"
                                     "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
    (tmp_path / "index").write_text("")
    openssl(tmp_path, "ca", "-batch", "-config", "ca.cnf", "-cert", f"{pki}/ca.pem", "-keyfile", f"{pki}/ca.key", "-in",
            f"{pki}/client.csr", "-notext", "-out", f"{pki}/ended.pem", "-startdate", "20200101000000Z", "-enddate",
            "20210101000000Z")
    shutil.copy(f"{pki}/client.key", f"{pki}/ended.key")
    folder = tmp_path / "conf" / "cas"
    folder.mkdir(parents=True)
    shutil.copy(f"{pki}/ca.pem", folder / "1.pem")
    shutil.copy(f"{pki}/other.pem", folder / "2.pem")
    (folder / "README").write_text("no certificate\n")
    files = "capath cas\ncertfile server.pem\nkeyfile server.key\nrequire_certificate true\n"
    b = start(config=f"network {BROKER}/24\nallow_anonymous true\nlistener 8883\n{files}listener 8884\n{files}"
                     "disable_client_cert_date_checks true\n")
    assert lab.ping()
    b.wait("listener 8883: .* 2 CAs")
    for name in ("client", "stranger"):  # each of another CA
        assert alive(Raw(lab.context(pki, name), port=8883).open(name))
    with pytest.raises(Exception):
        Raw(lab.context(pki, "ended"), port=8883).open("ended")
    late = Raw(lab.context(pki, "ended"), port=8884).open("ended")
    assert alive(late)
    b.configure(f"# new\nnetwork {BROKER}/24\nallow_anonymous true\nlistener 8883\n{files}listener 8884\n{files}")
    b.type("reload")
    b.wait("reload: done; 1 connections")
    assert told(late, b"\x87")
    assert b.stop() == 0


def test_mount_point_and_id_prefix(start):
    b = start(config=CONFIG + "listener 1885\nmount_point site/\nlistener_auto_id_prefix gate-\n")
    assert lab.ping()
    gate = Raw(port=1885).open("", version=5)
    assert b"gate-" in gate.connack
    plain = Raw().open("plain").send(subscribe("site/#", 0))
    gate.send(subscribe("t", 0))
    assert gate.receive()[0] == plain.receive()[0] == 0x90
    gate.send(publish("t", b"x"))
    assert gate.receive() == (0x30, b"\0\1t\0x") and plain.receive() == (0x30, b"\0\6site/t\0x")
    b.configure(CONFIG + "listener 1885\nmount_point other/\n")
    b.type("reload")
    b.wait("mount_point has changed: it counts from the next start")
    b.wait("reload: done; 0 connections")
    assert b.stop() == 0


# --- logs

def test_log_to_syslog(start):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((lab.LINUX, 5514))
    receiver.settimeout(20)
    b = start(config=f"log_dest syslog\nsyslog_server {lab.LINUX} 5514\nlog_facility 2\nsys_interval 1\n" + CONFIG)
    assert lab.ping()
    Raw().open("someone")
    got, end = [], time.time() + 20
    while time.time() < end and not any("someone" in m for m in got):
        got.append(receiver.recv(2000).decode())
    for m in got:
        assert re.fullmatch(r"<1(4[4-9]|5[01])>1 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ - urmqtt - - - .*", m), m
    assert any("ready: mqtt on" in m for m in got), "the lines of the start come, too"
    # Nobody there, or nobody on the way: nothing waits, what is lost is counted.
    b.configure("log_dest syslog\nsyslog_server 10.9.0.99\nsys_interval 1\n" + CONFIG)
    b.type("reload")
    b.wait("reload: done")
    for k in range(20):  # some thirty lines each
        b.type("pools")
        time.sleep(0.05)
    alive_ = Raw().open("alive")
    assert alive(alive_)
    got = messages(Raw().open("watch").send(subscribe("$SYS/broker/log/syslog/#", 0)), 3)
    assert int(got["$SYS/broker/log/syslog/dropped"][1]) > 100, got
    assert b.stop() == 0


def test_log_to_topics_and_console(start):
    b = start(config=CONFIG + "log_dest topic\nlog_type notice\nlog_type warning\nlog_type subscribe\nlog_type unsubscribe\n")
    assert lab.ping()
    w = Raw().open("watch").send(subscribe("$SYS/broker/log/#", 0))
    assert w.receive()[0] == 0x90
    b.wait("subscribes: .SYS/broker/log/#")
    time.sleep(0.3)
    w.buffer = b""
    c = Raw().open("come and go").send(subscribe("a/\u00fc", 0))
    b.wait("connected by MQTT 5.0: come and go")
    c.send(lab.DISCONNECT)
    Raw().send(b"\x10\x02\0\0").receive()
    got = {}
    end = time.time() + 3
    while time.time() < end and len(got) < 3:
        if w.buffer or select.select([w.s], [], [], 0.1)[0]:
            first, body = w.receive()
            if first >> 4 == 3:
                n = int.from_bytes(body[:2], "big")
                if b"/syslog/" not in body[2:2 + n]:  # counters that live there, too
                    got.setdefault(body[2:2 + n].decode(), []).append(body[2 + n + 1:].decode())
        if len(got.get("$SYS/broker/log/N", [])) >= 4:
            break
    assert any(re.fullmatch(r"\d+: 10.9.0.1:\d+ on 1883: subscribes: a/\\xc3\\xbc", t)
               for t in got["$SYS/broker/log/M/subscribe"]), got
    notices = " ".join(got["$SYS/broker/log/N"])
    assert "connected by MQTT 5.0: come and go" in notices, got
    b.wait("disconnected")
    b.wait("malformed CONNECT")
    b.configure(CONFIG + "connection_messages false\n")
    b.type("reload")
    b.wait("reload: done")
    b.lines.clear()
    Raw().open("silent").send(PING).receive()
    time.sleep(0.3)
    assert not any("silent" in line for line in b.lines)
    assert b.stop() == 0
