# SPDX-License-Identifier: Apache-2.0
"""The broker's own tests on four cores, each connection on any of them; what one core hears all hear: messages, retained
messages, shared groups, sessions that are taken over from core to core."""
import pytest

import lab
from test_broker import *  # noqa: F401,F403

del test_200_mtls_clients_lose_nothing, test_bad_wire  # noqa: F821  long: CORES=4 pytest test_broker.py

CLIENTS = 12


@pytest.fixture(scope="module")
def broker(namespace, pki, tmp_path_factory):
    b = lab.Broker(str(tmp_path_factory.mktemp("broker")), pki, cores=4)
    yield b
    assert b.stop() == 0


def everyone(prefix):
    return [lab.Raw().open(f"{prefix}{i}") for i in range(CLIENTS)]


def subscribe(c, topic, qos=1):
    c.send(lab.subscribe(topic, qos))
    assert c.receive()[0] == 0x90


def take(c):
    """The next message's payload, acknowledged when it asks for it."""
    first, body = c.receive()
    assert first & 0xf0 == 0x30, hex(first)
    at = 2 + int.from_bytes(body[:2], "big")
    if first & 6:
        c.send(lab.packet(0x40, body[at:at + 2]))
        at += 2
    assert body[at] == 0
    return bytes(body[at + 1:])


def test_everyone_hears_everyone(broker):
    clients = everyone("all")
    for c in clients:
        subscribe(c, "all/+")
    for i, c in enumerate(clients):
        c.send(lab.publish(f"all/{i}", b"%d" % i))
        assert [take(x) for x in clients] == [b"%d" % i] * CLIENTS
    for c in clients:
        c.send(lab.DISCONNECT).close()


def test_retained_by_one_for_all(broker):
    clients = everyone("ret")
    for i, c in enumerate(clients):
        c.send(lab.publish(f"kept/{i}", b"first", qos=1, retain=True))
        assert c.receive()[0] == 0x40
    for i, c in enumerate(clients):  # by another core, perhaps
        c.send(lab.publish(f"kept/{(i + 5) % CLIENTS}", b"%d" % ((i + 5) % CLIENTS), qos=1, retain=True))
        assert c.receive()[0] == 0x40
    for c in clients:
        subscribe(c, "kept/#")
        assert sorted(int(take(c)) for _ in range(CLIENTS)) == list(range(CLIENTS))
    for i, c in enumerate(clients):
        c.send(lab.publish(f"kept/{i}", b"", retain=True))
        c.send(lab.DISCONNECT).close()


def test_a_group_is_one(broker):
    clients = everyone("grp")
    for c in clients:
        subscribe(c, "$share/g/jobs")
    publisher = lab.Raw().open("boss")
    for i in range(20 * CLIENTS):
        publisher.send(lab.publish("jobs", b"%d" % i, qos=1))
    for _ in range(20 * CLIENTS):
        assert publisher.receive()[0] == 0x40
    got = []
    for c in clients:
        c.s.settimeout(0.5)
    idle = 0
    while len(got) < 20 * CLIENTS and idle < 3 * CLIENTS:
        for c in clients:
            try:
                got.append(int(take(c)))
                idle = 0
            except (TimeoutError, lab.socket.timeout):
                idle += 1
    assert sorted(got) == list(range(20 * CLIENTS))
    for c in clients + [publisher]:
        c.send(lab.DISCONNECT).close()


def test_a_session_follows_its_client(broker):
    publisher = lab.Raw().open("writer")
    sent, got = 0, []
    c = lab.Raw().open("mover", clean=True, expiry=600)
    subscribe(c, "moves")
    for _ in range(20):
        for _ in range(5):
            publisher.send(lab.publish("moves", b"%d" % sent, qos=1))
            assert publisher.receive()[0] == 0x40
            sent += 1
        got += [int(take(c)) for _ in range(3)]
        c = lab.Raw().open("mover", clean=False, expiry=600)  # the old connection is taken over
    while len(set(got)) < sent:
        got.append(int(take(c)))
    assert sorted(set(got)) == list(range(sent))
    assert list(dict.fromkeys(got)) == sorted(set(got))  # in order; what was not acknowledged comes again
    c.send(lab.DISCONNECT).close()
    publisher.send(lab.DISCONNECT).close()
