# SPDX-License-Identifier: Apache-2.0
"""Proves: the console over MQTT answers the users that the configuration names, and nobody else; it lists, inspects and
kicks clients, tells subscriptions, drops, bridges, metrics and logs, reloads; mistakes get errors, not silence."""
import json
import time

import paho.mqtt.client as paho
import pytest

import lab
from lab import BROKER

TOPIC = "$CONTROL/urmqtt/v1"
CONFIG = f"""
network {BROKER}/24
console_user client
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
    b = lab.Broker(str(tmp_path_factory.mktemp("console")), pki, config=CONFIG)
    assert lab.ping()
    yield b
    assert b.stop() == 0


class Console:
    def __init__(self, pki, name="client", port=8883):
        self.answers = []
        self.c = paho.Client(f"console-{name}-{time.time()}", protocol=paho.MQTTv5)
        if port == 8883:
            self.c.tls_set_context(lab.context(pki, name))
        self.c.on_message = lambda c, u, m: self.answers.append((m.topic, m.payload))
        self.c.connect(BROKER, port)
        self.c.loop_start()

    def raw(self, payload, seconds=5):
        self.answers.clear()
        self.c.publish(TOPIC, payload, 1)
        end = time.time() + seconds
        while not self.answers and time.time() < end:
            time.sleep(0.01)
        if not self.answers:
            return None
        topic, payload = self.answers[0]
        assert topic == TOPIC + "/response"
        return json.loads(payload)["responses"]

    def ask(self, command, **fields):
        answer = self.raw(json.dumps({"commands": [{"command": command, **fields}]}))
        assert len(answer) == 1 and answer[0]["command"] == command
        return answer[0]

    def close(self):
        self.c.disconnect()
        self.c.loop_stop()


@pytest.fixture
def console(broker, pki):
    c = Console(pki)
    yield c
    c.close()


def test_clients(console):
    raw = lab.Raw().open("watched", keep_alive=77)
    raw.send(lab.subscribe("a/+/c", 1) + lab.subscribe("$share/g/x/#", 2, pid=2))
    assert raw.receive()[0] == 0x90 and raw.receive()[0] == 0x90
    data = console.ask("listClients")["data"]
    assert {"clientid": "watched", "connected": True} in data["clients"] and data["totalCount"] >= 2
    one = console.ask("getClient", clientid="watched", correlationData='a "b" ü')
    assert one["correlationData"] == 'a "b" ü'
    client = one["data"]["client"]
    assert client["protocol"] == 5 and client["subscriptions"] == 2 and client["keepAlive"] == 77
    assert client["address"].startswith("10.9.0.1:") and client["port"] == 1883 and client["tls"] is False
    subs = console.ask("listSubscriptions", clientid="watched")["data"]["subscriptions"]
    assert {(s["topic"], s.get("group"), s["qos"]) for s in subs} == {("a/+/c", None, 1), ("x/#", "g", 2)}
    dropped = console.ask("whyDropped", clientid="watched")["data"]["dropped"]
    assert dropped["queue full"] == 0 and len(dropped) >= 5
    assert "error" not in console.ask("kickClient", clientid="watched")
    first, body = raw.receive()
    assert first == 0xe0 and body[0] == 0x98 and raw.receive() is None
    assert console.ask("kickClient", clientid="watched")["error"] == "Client is not connected"


def test_pages(console):
    many = [lab.Raw().open(f"page{i}") for i in range(25)]
    seen = []
    for offset in range(0, 40, 10):
        seen += [c["clientid"] for c in console.ask("listClients", offset=offset, count=10)["data"]["clients"]]
    assert len(seen) == len(set(seen)) and {f"page{i}" for i in range(25)} <= set(seen)
    for r in many:
        r.close()


def test_the_broker(console, broker):
    text = console.ask("getMetrics")["data"]["text"]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines())
    assert int(values["urmqtt_clients_connected"]) >= 1 and int(values["urmqtt_tls_handshakes"]) >= 1
    assert console.ask("listBridges")["data"]["bridges"] == []
    names = {c["command"] for c in console.ask("listCommands")["data"]["commands"]}
    assert {"listClients", "reload", "getLogs"} <= names
    logs = console.ask("getLogs", count=500)["data"]
    assert any("ready: mqtts" in line["text"] for line in logs["lines"])
    assert any("getMetrics by client" in line["text"] for line in logs["lines"])
    more = console.ask("getLogs", since=logs["next"])["data"]
    assert more == {"lines": [], "next": logs["next"]}  # whoever follows the log does not fill it
    assert "error" in console.ask("kickClient", clientid="nobody")
    more = console.ask("getLogs", since=logs["next"])["data"]
    assert more["lines"][0]["number"] == logs["next"] and "kickClient" in more["lines"][0]["text"]
    assert "error" in console.ask("reload")  # nothing has changed
    broker.wait("console: reload by client")


def test_mistakes(console):
    assert console.ask("frobnicate")["error"] == "Unknown command"
    assert console.ask("getClient")["error"] == "Invalid/missing clientid"
    assert console.ask("getClient", clientid="nobody")["error"] == "Client not found"
    assert console.ask("LISTclients".lower())["data"]["totalCount"] > 0
    for bad in ("", "{", "[]", "{}", '{"commands":{}}', '{"commands":[', "nonsense", '{"commands":[1]}'):
        answer = console.raw(bad)
        assert answer and "error" in answer[0], bad
    assert "too long" in console.raw("x" * 20000)[0]["error"]
    both = console.raw('{"commands":[{"command":"getClient","clientid":"x"},{"command":"listBridges"}]}')
    assert "error" in both[0] and both[1]["data"] == {"bridges": []}


def test_an_answer_that_is_too_long_says_so(console):
    raw = lab.Raw().open("long")
    for i in range(1, 60):
        raw.send(lab.subscribe(f"{i}/" + "x" * 3000, 0, pid=i))
        assert raw.receive()[0] == 0x90
    assert "too long" in console.ask("listSubscriptions", clientid="long")["error"]
    assert len(console.ask("listSubscriptions", clientid="long", count=10)["data"]["subscriptions"]) == 10
    raw.close()


def test_nobody_else(broker, pki):
    for who in (Console(pki, port=1883), Console(pki, name="server")):
        who.c.subscribe("#")
        who.c.subscribe("$CONTROL/#")
        assert who.raw('{"commands":[{"command":"listClients"}]}', seconds=0.7) is None
        who.close()


def test_kicking_oneself(broker, pki):
    c = Console(pki)
    name = c.c._client_id.decode()
    gone = []
    c.c.on_disconnect = lambda *a: gone.append(a[2])
    c.c.reconnect_delay_set(60, 60)
    c.raw(json.dumps({"commands": [{"command": "kickClient", "clientid": name}]}), seconds=0.5)
    end = time.time() + 5
    while not gone and time.time() < end:
        time.sleep(0.02)
    assert gone
    c.c.loop_stop()
