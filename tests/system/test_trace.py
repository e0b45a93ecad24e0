# SPDX-License-Identifier: Apache-2.0
"""Proves: traceClient shows each packet of one client in both directions to who asked and to nobody else, never a payload
or a password; a flood is cut and the cut is told; it ends by itself, and when nobody listens."""
import json
import struct
import time

import pytest

import lab
from test_console import Console, CONFIG

TOPIC = "$CONTROL/urmqtt/v1/trace"


@pytest.fixture(scope="module")
def broker(namespace, pki, tmp_path_factory):
    b = lab.Broker(str(tmp_path_factory.mktemp("trace")), pki, config=CONFIG)
    assert lab.ping()
    yield b
    assert b.stop() == 0


class Tracer(Console):
    def __init__(self, pki):
        super().__init__(pki)
        self.told = []
        self.c.on_message = lambda c, u, m: (self.told if m.topic == TOPIC else self.answers).append((m.topic, m.payload))

    def packets(self, until, seconds=5):
        """What has been told, once `until` is true of it."""
        end = time.time() + seconds
        while time.time() < end:
            seen = [json.loads(p) for _, p in list(self.told)]
            if until(seen):
                return seen
            time.sleep(0.01)
        raise AssertionError(seen)


@pytest.fixture
def tracer(broker, pki):
    c = Tracer(pki)
    yield c
    c.ask("traceClient", seconds=0)
    c.close()


def short(seen):
    return [(p["direction"], p["type"], p.get("flags", 0), p.get("packetId"), p.get("topic"), p["length"], p.get("payload"))
            for p in seen if "type" in p]


def publish(topic, payload, qos=0, pid=1, props=b""):
    body = lab.utf8(topic) + (struct.pack(">H", pid) if qos else b"") + lab.varint(len(props)) + props + payload
    return lab.packet(0x30 | qos << 1, body)


def test_both_directions(tracer):
    assert "error" not in tracer.ask("traceClient", clientid="seen")  # before it is there
    raw = lab.Raw().open("seen")
    raw.send(lab.subscribe("a/#", 1, pid=7))
    assert raw.receive()[0] == 0x90
    raw.send(publish("a/b", b"secret-payload", qos=1, pid=9, props=b"\x01\x01"))
    first, body = raw.receive()
    while first >> 4 != 3:
        first, body = raw.receive()
    raw.send(lab.packet(0x40, body[5:7]) + b"\xc0\x00")
    seen = tracer.packets(lambda s: any(p.get("type") == "PINGRESP" for p in s))
    lines = short(seen)
    connect = lines[0]
    assert connect[:5] == ("in", "CONNECT", 0, None, None) and lines[1][:2] == ("out", "CONNACK")
    assert lines[1][5] == len(raw.connack) + 2
    assert ("in", "SUBSCRIBE", 2, 7, "a/#", 11, None) in lines and ("out", "SUBACK", 0, 7, None, 6, None) in lines
    assert ("in", "PUBLISH", 2, 9, "a/b", 2 + 5 + 2 + 3 + 14, 14) in lines
    assert [(p[0], p[1], p[4], p[6]) for p in lines if p[:2] == ("out", "PUBLISH")] == [("out", "PUBLISH", "a/b", 14)]
    assert any(p[:2] == ("out", "PUBACK") and p[3] == 9 for p in lines) and any(p[:2] == ("in", "PUBACK") for p in lines)
    assert "secret-payload" not in json.dumps(seen)
    assert abs(seen[0]["time"] - time.time()) < 60
    raw.send(b"\xe0\x00")
    assert short(tracer.packets(lambda s: any(p.get("type") == "DISCONNECT" for p in s)))[-1][:2] == ("in", "DISCONNECT")


def test_large_ones_are_found_in_the_stream(tracer):
    """Packets of more than one transmit buffer and many small ones between: each boundary is right."""
    raw = lab.Raw().open("large")
    raw.send(lab.subscribe("l/#", 0))
    assert raw.receive()[0] == 0x90
    assert "error" not in tracer.ask("traceClient", clientid="large")
    tracer.told.clear()
    sender = lab.Raw().open("sender")
    sizes = [70000, 0, 1, 5, 20000, 300, 3000, 3, 100000, 2]
    for i, n in enumerate(sizes):
        sender.send(publish(f"l/{i}", b"x" * n))
    long = "l/" + "y" * 1000
    sender.send(publish(long, b"x" * 10) + publish("l/end", b""))
    for _ in range(len(sizes) + 2):
        assert raw.receive()[0] == 0x30
    seen = tracer.packets(lambda s: any(p.get("topic") == "l/end" for p in s))
    told = [(p[4], p[6]) for p in short(seen) if p[1] == "PUBLISH"]
    assert told[:len(sizes)] == [(f"l/{i}", n) for i, n in enumerate(sizes)]
    assert told[len(sizes):] == [(long[:256], None), ("l/end", 0)]
    assert all(p["direction"] == "out" for p in seen)
    raw.close()
    sender.close()


def test_a_flood_is_cut(tracer):
    raw = lab.Raw().open("flood")
    assert "error" not in tracer.ask("traceClient", clientid="flood")
    tracer.told.clear()
    for _ in range(1000):
        raw.send(publish("f", b""))
    raw.send(b"\xc0\x00")
    assert raw.receive()[0] == 0xd0
    left = [p["leftOut"] for p in tracer.packets(lambda s: any("leftOut" in p for p in s)) if "leftOut" in p]
    told = len([a for a in tracer.told if b'"PUBLISH"' in a[1]])
    assert told <= 400 and sum(left) + told >= 900, (told, left)
    raw.close()


def test_it_ends(tracer, broker, pki):
    raw = lab.Raw().open("short")
    assert "error" not in tracer.ask("traceClient", clientid="short", seconds=1)
    tracer.told.clear()
    assert tracer.packets(lambda s: s)[-1] == {"end": "the time is over"}
    raw.send(b"\xc0\x00")
    raw.receive()
    time.sleep(0.2)
    assert len(tracer.told) == 1
    other = Tracer(pki)
    assert "error" not in other.ask("traceClient", clientid="short")
    assert "somebody else" in tracer.ask("traceClient", clientid="short")["error"]
    other.close()
    raw.send(b"\xc0\x00")
    raw.receive()  # nobody listens: it ends
    time.sleep(0.2)
    assert "error" not in tracer.ask("traceClient", clientid="short")
    raw.close()


def test_mistakes(tracer):
    me = tracer.c._client_id.decode()
    assert "oneself" in tracer.ask("traceClient", clientid=me)["error"]
    assert "seconds" in tracer.ask("traceClient", clientid="x", seconds=301)["error"]
    assert "clientid" in tracer.ask("traceClient")["error"]


def test_nobody_else_and_no_password(broker, pki, tracer):
    spy = lab.Raw().open("spy")
    spy.send(lab.subscribe("#", 0) + lab.subscribe("$CONTROL/#", 0, pid=2))
    spy.receive(), spy.receive()
    assert "error" not in tracer.ask("traceClient", clientid="login")
    tracer.told.clear()
    body = lab.utf8("MQTT") + b"\x05\xc2\x00\x3c\x00" + lab.utf8("login") + lab.utf8("user") + lab.utf8("hunter2")
    raw = lab.Raw().send(lab.packet(0x10, body))
    assert raw.receive()[0] == 0x20
    raw.send(b"\xc0\x00")
    seen = tracer.packets(lambda s: any(p.get("type") == "PINGRESP" for p in s))
    assert seen[0]["type"] == "CONNECT" and "hunter2" not in json.dumps(seen) and "user" not in json.dumps(seen)
    spy.send(b"\xc0\x00")
    assert spy.receive()[0] == 0xd0  # and nothing before it
    raw.close()
    spy.close()
