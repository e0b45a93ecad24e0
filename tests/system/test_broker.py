# SPDX-License-Identifier: Apache-2.0
"""The whole broker as a sanitized Linux process over TAP, with other people's clients (mosquitto, paho) and with bytes
of our own making."""
import hashlib
import json
import random
import socket
import ssl
import subprocess
import threading
import time

import paho.mqtt.client as paho
import pytest

import lab
from lab import BROKER, DISCONNECT, PING, PLAIN, TLS, Raw, connect, context, packet, ping, publish, subscribe, utf8

VERSIONS = {"311": ["-V", "mqttv311"], "5": ["-V", "mqttv5"]}


def where(pki, kind, name="client"):
    if kind == "plain":
        return ["-h", BROKER, "-p", str(PLAIN)]
    return ["-h", BROKER, "-p", str(TLS), "--cafile", f"{pki}/ca.pem", "--cert", f"{pki}/{name}.pem", "--key",
            f"{pki}/{name}.key"]


class Sub:
    """mosquitto_sub that is known to be subscribed (-d tells) before it is used."""

    def __init__(self, args, count, topic, qos=2):
        self.p = subprocess.Popen(["stdbuf", "-oL", "mosquitto_sub", "-d", *args, "-t", topic, "-q", str(qos), "-C", str(count),
                                   "-W", "20", "-F", "MSG %t %q %r %l %p"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.lines = []
        for line in self.p.stdout:
            self.keep(line)
            if line.startswith("Subscribed"):
                break

    def keep(self, line):
        if line.startswith("MSG "):
            self.lines.append(line[4:].rstrip("\n"))

    def all(self):
        for line in self.p.stdout:
            self.keep(line)
        assert self.p.wait(25) == 0, self.lines
        return self.lines


def pub(args, topic, *more):
    subprocess.run(["mosquitto_pub", *args, "-t", topic, *more], check=True, timeout=20)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["plain", "mtls"])
def test_every_qos(broker, pki, kind, version):
    args = where(pki, kind) + VERSIONS[version]
    topic = f"qos/{kind}/{version}"
    sub = Sub(args, 3, topic)
    for qos in "012":
        pub(args, topic, "-q", qos, "-m", f"message {qos}")
    assert sub.all() == [f"{topic} {q} 0 9 message {q}" for q in range(3)]


def test_versions_and_listeners_meet(broker, pki):
    sub = Sub(where(pki, "mtls") + VERSIONS["5"], 2, "meet/+/end")
    pub(where(pki, "plain") + VERSIONS["311"], "meet/a/end", "-q", "1", "-m", "one")
    pub(where(pki, "plain") + VERSIONS["5"], "meet/b/end", "-q", "2", "-m", "two")
    assert sub.all() == ["meet/a/end 1 0 3 one", "meet/b/end 2 0 3 two"]


def test_retained(broker, pki):
    args = where(pki, "plain")
    pub(args, "keep/x", "-r", "-m", "old")
    pub(args, "keep/x", "-r", "-q", "1", "-m", "new")
    assert Sub(args, 1, "keep/#").all() == ["keep/x 1 1 3 new"]
    assert Sub(args, 1, "keep/x").all() == ["keep/x 1 1 3 new"]
    pub(args, "keep/x", "-r", "-n")
    r = Raw().open("keep-none").send(subscribe("keep/#"))
    assert r.receive()[0] == 0x90
    assert r.silent()
    r.close()


@pytest.mark.parametrize("how", ["kill", "fin", "disconnect"])
def test_will(broker, how):
    watch = Raw().open("watch").send(subscribe("will/+"))
    assert watch.receive()[0] == 0x90
    dying = Raw().open("dying", will=("will/x", "gone"))
    if how == "kill":
        dying.kill()
    elif how == "disconnect":
        dying.send(DISCONNECT)
        assert dying.receive() is None
        dying.close()
        assert watch.silent(0.5), "a DISCONNECT takes the will away"
        watch.close()
        return
    else:
        dying.close()
    first, body = watch.receive()
    assert first & 0xf0 == 0x30 and body.endswith(b"gone")
    watch.close()


def test_disconnect_before_a_reset_revokes_the_will(broker):
    """Both arrive together when a client closes with unread bytes: the DISCONNECT counts."""
    watch = Raw().open("watch").send(subscribe("will/+"))
    assert watch.receive()[0] == 0x90
    for i in range(20):
        dying = Raw().open(f"dying{i}", will=("will/x", "gone"))
        dying.send(DISCONNECT)
        dying.kill()
    assert watch.silent(0.5)
    watch.close()


def test_keep_alive_ends_a_silent_client(broker):
    watch = Raw().open("watch").send(subscribe("will/+"))
    assert watch.receive()[0] == 0x90
    begin = time.time()
    quiet = Raw().open("quiet", keep_alive=1, will=("will/quiet", "late"))
    lively = Raw().open("lively", keep_alive=1, will=("will/lively", "wrong"))
    for _ in range(5):
        time.sleep(0.5)
        assert lively.send(PING).receive() == (0xd0, b"")
    first, body = watch.receive()
    assert body.endswith(b"late") and 1.4 < time.time() - begin < 4
    assert quiet.told(0x8d)  # [MQTT-3.1.2-24], reason: keep alive timeout
    assert quiet.receive() is None
    lively.send(DISCONNECT)
    assert watch.silent()
    watch.close()


def test_takeover(broker):
    old = Raw().open("same", expiry=60)
    new = Raw().open("same", clean=False, expiry=60)
    assert new.connack[0] == 1, "session present"
    assert old.told(0x8e)
    assert old.receive() is None
    old4 = Raw().open("same4", version=4)
    Raw().open("same4", version=4)
    assert old4.receive() is None
    assert new.send(PING).receive() == (0xd0, b"")
    new.send(DISCONNECT)


def test_offline_session_gets_its_messages(broker, pki):
    r = Raw().open("sleeper", clean=False, expiry=60).send(subscribe("sleep/#", 2))
    assert r.receive()[0] == 0x90
    r.send(DISCONNECT).close()
    for qos in "12":
        pub(where(pki, "plain"), "sleep/x", "-q", qos, "-m", f"q{qos}")
    r = Raw().open("sleeper", clean=False, expiry=60)
    assert r.connack[0] == 1
    got = [r.receive() for _ in range(2)]
    assert [body[-2:] for _, body in got] == [b"q1", b"q2"]
    r.send(DISCONNECT).close()


@pytest.mark.parametrize("kind", ["plain", "mtls"])
@pytest.mark.parametrize("size", [262144, 1900000])
def test_big_payloads(broker, pki, kind, size):
    body = random.Random(size).randbytes(size)
    got = {}
    done = threading.Event()

    def on_message(_client, _user, m):
        got[m.qos] = hashlib.sha256(m.payload).hexdigest()
        if len(got) == 3:
            done.set()

    c = paho.Client(f"big-{kind}", protocol=paho.MQTTv311)
    if kind == "mtls":
        c.tls_set(f"{pki}/ca.pem", f"{pki}/client.pem", f"{pki}/client.key")
        c.tls_insecure_set(True)
    c.on_message = on_message
    c.on_connect = lambda client, *_: client.subscribe("big/x", 2)
    subscribed = threading.Event()
    c.on_subscribe = lambda *_: subscribed.set()
    c.connect(BROKER, TLS if kind == "mtls" else PLAIN)
    c.loop_start()
    assert subscribed.wait(10)
    for qos in range(3):
        c.publish("big/x", body, qos)
    assert done.wait(30), got
    c.disconnect()
    c.loop_stop()
    assert set(got.values()) == {hashlib.sha256(body).hexdigest()}


def test_packet_larger_than_announced_is_refused(broker):
    r = Raw().open("fat")
    r.send(b"\x30" + lab.varint(2000001) + b"\0\1x\0")
    assert r.told(0x95)
    assert r.receive() is None


def test_without_or_with_a_foreign_certificate(broker, pki):
    for name in (None, "stranger"):
        with pytest.raises(Exception):  # TLS 1.3: the alert comes with the first read
            Raw(context(pki, name)).open("intruder")
    broker.wait("TLS handshake failed")
    Raw(context(pki)).open("friend").send(DISCONNECT)


def test_plain_bytes_on_the_tls_port_and_back(broker, pki):
    r = Raw(port=TLS)
    r.send(connect())
    data = r.s.recv(100)
    assert data[:1] in (b"\x15", b""), data  # an alert, or closed
    r.close()
    r = Raw()
    r.send(b"\x16\x03\x01\x00\x05hello")
    assert r.receive() is None


def samples(version):
    v5 = version == 5
    p = b"\0" if v5 else b""
    out = {
        "connect": connect("t", version, will=("w/x", "y")),
        "publish0": publish("a/b", b"payload", 0, version=version),
        "publish1": publish("a/b", b"payload", 1, 7, version=version),
        "publish2": publish("a/b", b"payload", 2, 8, version=version),
        "puback": b"\x40\x02\0\1", "pubrec": b"\x50\x02\0\1", "pubrel": b"\x62\x02\0\1", "pubcomp": b"\x70\x02\0\1",
        "subscribe": subscribe("a/#", 2, 3, version),
        "unsubscribe": packet(0xa2, b"\0\4" + p + utf8("a/#")),
        "pingreq": PING, "disconnect": DISCONNECT,
        "connack": b"\x20\x02\0\0", "suback": b"\x90\x03\0\1\0", "unsuback": b"\xb0\x02\0\1", "pingresp": b"\xd0\0",
        "auth": b"\xf0\x02\x18\0", "reserved": b"\0\0",
    }
    if v5:
        props = b"\x01\x01\x02\0\0\0\x09\x03\0\1t\x08\0\1r\x09\0\1c\x26\0\1k\0\1v\x23\0\1"
        out["publish5"] = packet(0x32, utf8("a/b") + b"\0\x09" + lab.varint(len(props)) + props + b"x")
        out["disconnect5"] = packet(0xe0, b"\0\x05\x11\0\0\0\0")
    return out


@pytest.mark.parametrize("version", [4, 5])
def test_every_packet_cut_at_every_byte(broker, version):
    """Two ways to be cut: the connection ends there, or the packet says that it is that long."""
    alive = Raw().open("alive", version)
    count = 0
    for name, whole in samples(version).items():
        for cut in range(1, len(whole) + 1):
            r = Raw()
            if name != "connect":
                r.send(connect("cut", version))
            r.send(whole[:cut]).close()
            if 2 <= cut < len(whole):
                body = whole[2:cut]
                r = Raw()
                if name != "connect":
                    r.send(connect("cut", version))
                r.send(packet(whole[0], body))
                r.close()
                count += 1
            count += 1
    assert count > 200
    assert alive.send(PING).receive() == (0xd0, b"")
    alive.close()


def u16_fields(whole):
    """Every place where two bytes could be a length: all of them. The fixed header's length too."""
    for at in range(1, len(whole) - 1):
        for value in (0, 1, len(whole), 0x7fff, 0xffff):
            yield whole[:at] + value.to_bytes(2, "big") + whole[at + 2:]
    for value in (0, 1, len(whole) - 3, len(whole) - 1, len(whole) + 1, 127):
        yield whole[:1] + bytes([value & 127]) + whole[2:]


@pytest.mark.parametrize("version", [4, 5])
def test_every_length_field_wrong(broker, version):
    alive = Raw().open("alive", version)
    for name, whole in samples(version).items():
        for wrong in u16_fields(whole):
            r = Raw()
            if name != "connect":
                r.send(connect("wrong", version))
            r.send(wrong).close()
    assert alive.send(PING).receive() == (0xd0, b"")
    alive.close()


@pytest.mark.parametrize("bad, reason", [
    (b"\x30\xff\xff\xff\xff\x01", 0x81),             # a fifth length byte
    (packet(0x30, b"\0\x09a\0"), 0x81),               # topic longer than the packet
    (packet(0x36, utf8("a") + b"\0\1\0x"), 0x81),      # QoS 3
    (packet(0x32, utf8("a") + b"\0\0\0x"), None),      # packet identifier 0
    (packet(0x30, utf8("a/#") + b"\0x"), None),        # a wildcard in a topic name
    (packet(0x30, utf8(b"\xc3\x28") + b"\0x"), None),  # not UTF-8
    (packet(0x82, b"\0\1\0"), None),                   # SUBSCRIBE without a filter
    (packet(0x80, b"\0\1\0" + utf8("a") + b"\0"), 0x81),  # reserved flags of SUBSCRIBE
    (packet(0x82, b"\0\1\0" + utf8("a") + b"\3"), None),  # QoS 3 asked
    (packet(0x30, utf8("a") + b"\x03\x23\0\0"), 0x94),  # topic alias 0
])
def test_the_right_reason(broker, bad, reason):
    r = Raw().open("reason").send(bad)
    first, body = r.receive()
    assert first == 0xe0 and body[0] >= 0x80
    assert reason is None or body[0] == reason
    assert r.receive() is None


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_tls_in_tiny_pieces(broker, pki, piece):
    """Handshake and a record of 16 KiB cut into segments that fill tcp's queue long before the record is whole."""
    s = socket.create_connection((BROKER, TLS))
    s.settimeout(10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(pki).wrap_bio(came, goes)

    def flush():
        data = goes.read()
        for i in range(0, len(data), piece):
            s.sendall(data[i:i + piece])

    def until(call):
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                flush()
                came.write(s.recv(65536))

    until(tls.do_handshake)
    flush()
    tls.write(connect("tiny") + subscribe("tiny/x", 0))
    flush()
    assert until(lambda: tls.read(100))[0] == 0x20
    body = bytes(range(256)) * (60 if piece > 1 else 16)
    tls.write(publish("tiny/x", body))
    flush()
    got = b""
    while body not in got:
        got += until(lambda: tls.read(65536))
    s.close()


def test_random_bytes(broker):
    rng = random.Random(5)
    alive = Raw().open("alive")
    for i in range(400):
        r = Raw()
        if i % 4:
            r.send(connect(f"noise{i % 7}", rng.choice([4, 5])))
        data = bytearray(rng.choice(list(samples(5).values())) * rng.randrange(1, 4))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        r.send(bytes(data)).close()
    assert alive.send(PING).receive() == (0xd0, b"")
    alive.close()


def test_byte_by_byte(broker):
    """Packets that come in the smallest pieces, and many in one piece."""
    r = Raw()
    for b in connect("slow") + subscribe("slow/x") + publish("slow/x", b"abc", 1, 9):
        r.send(bytes([b]))
        time.sleep(0.001)
    kinds = [r.receive()[0] & 0xf0 for _ in range(4)]
    assert kinds[:2] == [0x20, 0x90] and sorted(kinds[2:]) == [0x30, 0x40]
    many = b"".join(publish("slow/x", b"%05d" % i) for i in range(1000))
    r.send(many)
    got = []
    while len(got) < 1000:
        first, body = r.receive()
        if first & 0xf0 == 0x30 and body[-5:].isdigit():
            got.append(int(body[-5:]))
    assert got == list(range(1000))
    r.close()


@pytest.mark.parametrize("first", ["pingreq", "publish0", "subscribe", "connack"])
def test_first_packet_must_be_connect(broker, first):
    r = Raw().send(samples(5)[first])
    assert r.receive() is None  # [MQTT-3.1.0-1]


@pytest.mark.parametrize("what", ["connect", "connack", "suback", "unsuback", "pingresp"])
def test_packets_that_a_client_may_not_send(broker, what):
    r = Raw().open("wrong").send(samples(5)[what])
    first, body = r.receive()
    assert first == 0xe0 and body[0] in (0x81, 0x82)
    assert r.receive() is None


def test_protocol_versions_that_are_none_are_told(broker):
    """MQTT 3.1 (MQIsdp, 3) is served as mosquitto does; versions nobody speaks get their CONNACK and the end."""
    old = Raw().send(packet(0x10, utf8("MQIsdp") + b"\3\2\0\x3c" + utf8("old")))
    assert old.receive() == (0x20, b"\0\0") and old.send(PING).receive() == (0xd0, b"")
    for name, level in (("MQIsdp", 2), ("MQTT", 6), ("MQTT", 3)):
        r = Raw().send(packet(0x10, utf8(name) + bytes([level, 2, 0, 60]) + utf8("none")))
        first, body = r.receive()  # [MQTT-3.1.2-2]: unacceptable protocol version, in 3.1.1's words or 5's
        assert first == 0x20 and body[0] == 0 and body[1] in (1, 0x84), (name, level, body)
        assert r.receive() is None


@pytest.mark.parametrize("kind", ["plain", "mtls"])
def test_a_slow_reader_costs_only_himself(broker, pki, kind):
    slow = Raw(context(pki) if kind == "mtls" else None, receive_buffer=2304).open("slow").send(subscribe("flood", 1))
    assert slow.receive()[0] == 0x90
    fast = Raw().open("fast").send(subscribe("flood", 0))
    assert fast.receive()[0] == 0x90
    feed = Raw().open("feed")
    body = bytes(3000)
    for i in range(200):
        feed.send(publish("flood", b"%04d" % i + body, 1, i + 1))
        assert feed.receive()[0] == 0x40
        assert fast.receive()[1][8:12] == b"%04d" % i
    for i in range(200):  # nothing was lost for the slow one either: QoS 1, within his queue
        first, data = slow.receive()
        assert data[10:14] == b"%04d" % i
        slow.send(b"\x40\x02" + data[7:9])
    for r in (slow, fast, feed):
        r.close()


def run_mix(kind, pki, *more, timeout=200):
    command = [f"{lab.BUILD}/bench/mqttmix", "--host", BROKER, "--port", str(PLAIN if kind == "plain" else TLS), *more]
    if kind == "mtls":
        command += ["--cert", f"{pki}/client.pem", "--key", f"{pki}/client.key"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][0])


def test_200_mtls_clients_lose_nothing(broker, pki):
    """The short form of load.py: none lost, duplicated, reordered; retained; wills."""
    got = run_mix("mtls", pki, "--clients", "200", "--messages", "20000", "--big", "40")
    assert got["deliveries"] == got["expected"] > 20000


def test_bad_wire(start, pki):
    """Loss, duplication, reordering and damage in both directions, without offload: still nothing lost above TCP, and wills
    come even where the RST was lost (after one and a half keep-alives)."""
    with lab.BadWire() as wire:
        broker = start(tap=wire.tap)
        for kind, seed in (("plain", "3"), ("mtls", "4")):
            got = run_mix(kind, pki, "--clients", "20", "--messages", "1000", "--big", "4", "--will-keep-alive", "2", "--seed", seed)
            assert got["deliveries"] == got["expected"] and got["wills"] == 10
            subprocess.run(["mosquitto_sub", "-h", BROKER, "-t", "keep/#", "--remove-retained", "-W", "1"],
                           stdout=subprocess.DEVNULL)
        assert broker.stop() == 0
