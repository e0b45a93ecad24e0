# SPDX-License-Identifier: Apache-2.0
"""Proves: real WebSocket peers (paho over ws and wss, Debian's websockets library) and a real load balancer (haproxy,
PROXY v1 and v2 with TLS details) get a whole MQTT session through the listeners that are configured for them."""
import asyncio
import os
import subprocess
import time

import paho.mqtt.client as paho
import pytest
import websockets

import lab
from lab import BROKER, LINUX

CONFIG = f"""
network {BROKER}/24
per_listener_settings true
listener 1883
allow_anonymous true
listener 9001
protocol websockets
allow_anonymous true
websockets_origin https://good.example
websockets_origin https://{BROKER}:9001
listener 9002
protocol websockets
allow_anonymous true
cafile ca.pem
certfile server.pem
keyfile server.key
require_certificate true
listener 1901
allow_anonymous true
enable_proxy_protocol 1
listener 1902
enable_proxy_protocol 2
proxy_protocol_v2_require_tls true
use_identity_as_username true
"""


@pytest.fixture(scope="module")
def front(namespace, pki, tmp_path_factory):
    b = lab.Broker(str(tmp_path_factory.mktemp("front")), pki, config=CONFIG, ready="wss on")
    assert lab.ping()
    yield b
    assert b.stop() == 0


def echo(client, port, payloads):
    """Subscribes, publishes each payload at QoS 2, returns what came back in order."""
    got = []
    client.on_message = lambda c, u, m: got.append(m.payload)
    client.on_connect = lambda c, *a: c.subscribe("ws/test", 2)
    client.on_subscribe = lambda c, *a: [c.publish("ws/test", p, 2) for p in payloads]
    client.connect(BROKER, port, 30)
    client.loop_start()
    end = time.time() + 20
    while len(got) < len(payloads) and time.time() < end:
        time.sleep(0.02)
    client.disconnect()
    client.loop_stop()
    return got


@pytest.mark.parametrize("protocol", [paho.MQTTv31, paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("secure", [False, True])
def test_paho_over_websocket(front, pki, secure, protocol):
    client = paho.Client("ws", transport="websockets", protocol=protocol)
    if secure:
        client.tls_set_context(lab.context(pki))
    # Not larger: paho 1.6.1 forgets a packet whose WebSocket frame the socket takes only in part.
    payloads = [b"", b"x", b"y" * 119, b"z" * 120, b"a" * 20000]
    assert echo(client, 9002 if secure else 9001, payloads) == payloads


def run(coroutine):
    return asyncio.new_event_loop().run_until_complete(asyncio.wait_for(coroutine, 20))


def test_websockets_library(front):
    async def talk():
        async with websockets.connect(f"ws://{BROKER}:9001/mqtt", subprotocols=["mqttv3.1", "mqtt"]) as w:
            assert w.subprotocol == "mqtt"
            data = lab.connect("lib") + lab.PING
            await w.send([data[:5], data[5:9], data[9:]])  # one message in three frames
            got = b""
            while len(got) < 4 or not got.endswith(b"\xd0\0"):
                got += await w.recv()
            assert got[0] == 0x20
            waiter = await w.ping(b"are you there")
            await waiter
            for byte in lab.PING * 3:  # one byte a frame
                await w.send(bytes([byte]))
            got = b""
            while len(got) < 6:
                got += await w.recv()
            assert got == b"\xd0\0" * 3
            await w.close(1000)
            assert w.close_code == 1000
    run(talk())


@pytest.mark.parametrize("size", [65535, 65536, 200000, 1900000])
def test_large_frames(front, size):
    async def talk():
        async with websockets.connect(f"ws://{BROKER}:9001/", subprotocols=["mqtt"], max_size=None) as w:
            payload = os.urandom(size - 11)
            await w.send(lab.connect("large") + lab.subscribe("l"))
            await w.send(lab.packet(0x30, lab.utf8("l") + b"\0" + payload))
            got = b""
            while not got.endswith(payload[-1000:]):
                got += await w.recv()
            assert got.endswith(payload)
    run(talk())


def test_text_frames_end_it(front):
    async def talk():
        async with websockets.connect(f"ws://{BROKER}:9001/", subprotocols=["mqtt"]) as w:
            await w.send("text")
            with pytest.raises(websockets.ConnectionClosed):
                await w.recv()
            assert w.close_code == 1003
    run(talk())


@pytest.mark.parametrize("options, status", [
    ({"origin": "https://evil.example", "subprotocols": ["mqtt"]}, 403),
    ({"subprotocols": ["amqp"]}, 400),
    ({}, 400),
])
def test_refused_upgrades(front, options, status):
    async def talk():
        with pytest.raises(websockets.InvalidStatusCode) as e:
            await websockets.connect(f"ws://{BROKER}:9001/", **options)
        assert e.value.status_code == status
    run(talk())


def test_allowed_origin(front):
    async def talk():
        async with websockets.connect(f"ws://{BROKER}:9001/", origin="https://good.example", subprotocols=["mqtt"]):
            pass
    run(talk())


def test_mqtt_on_a_websocket_port_is_told_http(front):
    r = lab.Raw(port=9001).send(lab.connect("raw") + b"\r\n\r\n")
    assert r.s.recv(1000).startswith(b"HTTP/1.1 400 ")


@pytest.fixture(scope="module")
def haproxy(front, pki, tmp_path_factory):
    folder = tmp_path_factory.mktemp("haproxy")
    pem = folder / "server.pem"
    pem.write_text(open(f"{pki}/server.pem").read() + open(f"{pki}/server.key").read())
    (folder / "conf").write_text(f"""
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen one
  bind {LINUX}:2001
  server s {BROKER}:1901 send-proxy
listen two
  bind {LINUX}:2002 ssl crt {pem} ca-file {pki}/ca.pem verify required
  server s {BROKER}:1902 send-proxy-v2-ssl-cn
""")
    p = subprocess.Popen(["haproxy", "-f", str(folder / "conf"), "-db"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    time.sleep(1)
    yield p
    p.terminate()
    p.wait(10)


def through(port, tls=None):
    s = lab.socket.create_connection((LINUX, port), 10)
    r = lab.Raw.__new__(lab.Raw)
    r.s, r.buffer = tls.wrap_socket(s) if tls else s, b""
    r.s.settimeout(10)
    return r


def test_haproxy_v1(front, haproxy):
    r = through(2001).open("via haproxy")
    r.send(lab.subscribe("p/1") + lab.publish("p/1", b"hello"))
    assert r.receive()[0] == 0x90 and r.receive() == (0x30, lab.utf8("p/1") + b"\0hello")
    port = r.s.getsockname()[1]
    r.send(b"\xff\xff\xff\xff\xff\xff")  # what is wrong is said of the client, not of the balancer
    assert r.receive()[0] == 0xe0
    assert r.receive() is None
    bad = through(2001).send(lab.packet(0x10, b"\0\4MQTT\x05\x03\0\0\0"))
    port = bad.s.getsockname()[1]
    answer = bad.receive()
    assert answer[0] == 0x20 and answer[1][1] == 0x81 and bad.receive() is None
    front.wait(rf"{LINUX}:{port} by way of {LINUX}:\d+ on 1901")


def test_haproxy_v2_brings_the_certificate(front, haproxy, pki):
    r = through(2002, lab.context(pki)).open("v2")
    r.send(lab.PING)
    assert r.receive()[0] == 0xd0


def test_proxy_header_is_required(front):
    r = lab.Raw(port=1901).send(lab.connect("direct"))
    assert r.receive() is None
    header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2])
    r = lab.Raw(port=1902).send(header + lab.connect("no tls"))
    assert r.receive() is None
    front.wait("came without TLS")


def test_half_of_everything(front):
    """A PROXY header and an upgrade cut at every byte: the broker goes on."""
    text = b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"
    for cut in range(len(text)):
        lab.Raw(port=1901).send(text[:cut]).close()
    r = lab.Raw().open("still here")
    r.send(lab.PING)
    assert r.receive()[0] == 0xd0
