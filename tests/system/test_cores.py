# SPDX-License-Identifier: Apache-2.0
"""Several cores, hosted: connections spread over them, with and without a queue for each in the TAP, plain and TLS;
what one core learns of the network all know; they end together."""
import re

import pytest

import lab

CLIENTS = 48


def connections(lines):
    """Of each core, as it says at its end."""
    return [int(m.group(1)) for m in (re.match(r"stopped: (\d+) connections", l) for l in lines) if m]


@pytest.mark.parametrize("cores", [2, 4])
@pytest.mark.parametrize("queues", [False, True], ids=["one queue", "a queue a core"])
def test_connections_spread(namespace, pki, tmp_path, cores, queues):
    name = "tapq" if queues else "taps"
    lab.sh("ip addr flush dev tap0")
    lab.make_tap(name, queues=queues)
    try:
        b = lab.Broker(str(tmp_path), pki, tap=name, cores=cores)
        tls = lab.context(pki)
        clients = [lab.Raw(tls=tls if i % 4 == 0 else None).open(f"spread-{i}") for i in range(CLIENTS)]
        for i, c in enumerate(clients):
            c.send(lab.subscribe(f"own/{i}"))
            assert c.receive()[0] == 0x90
            c.send(lab.publish(f"own/{i}", b"x" * 2000, qos=1))
        for i, c in enumerate(clients):
            got = {c.receive()[0] & 0xf0 for _ in range(2)}
            assert got == {0x30, 0x40}, got
        for c in clients:
            c.send(lab.DISCONNECT).close()
        assert b.stop() == 0
    finally:
        lab.sh(f"ip link del {name}")
        lab.sh(f"ip addr add {lab.LINUX}/24 dev tap0")
    each = connections(b.lines)
    assert len(each) == cores and sum(each) == CLIENTS, each
    assert min(each) >= CLIENTS / cores / 4, each


def test_reload_is_for_all(namespace, start):
    """Every core takes the new configuration: connections of a listener that is gone end on all, the new one is on all."""
    b = start(cores=3)
    before = [lab.Raw(tls=lab.context(b.pki) if i % 6 == 0 else None).open(f"before-{i}") for i in range(24)]
    b.configure(lab.CONFIG.replace(f"listener {lab.PLAIN}\n", "listener 1884\n"))
    b.type("reload")
    b.wait("reload: done; 20 connections that are no longer allowed were ended")
    ended = [c for i, c in enumerate(before) if i % 6 != 0]
    assert all(c.told(0x87) for c in ended)
    for c in before[::6]:
        c.send(lab.PING)
        assert c.receive()[0] == 0xd0
    after = [lab.Raw(port=1884).open(f"after-{i}") for i in range(24)]
    for _ in range(3):  # and again: contexts and rules of both generations come and go
        b.configure(lab.CONFIG.replace(f"listener {lab.PLAIN}\n", "listener 1884\nmax_connections 900\n"))
        b.type("reload")
        b.wait("reload: done; 0 connections")
        b.lines.clear()
        b.configure(lab.CONFIG.replace(f"listener {lab.PLAIN}\n", "listener 1884\n"))
        b.type("reload")
        b.wait("reload: done; 0 connections")
        b.lines.clear()
        again = lab.Raw(tls=lab.context(b.pki)).open("again")
        again.close()
    for c in after:
        c.send(lab.PING)
        assert c.receive()[0] == 0xd0
    assert b.stop() == 0
    each = connections(b.lines)
    assert len(each) == 3 and min(each) >= 4, each


def test_sys_counts_all(namespace, start):
    b = start(cores=3, config=lab.CONFIG + "sys_interval 1\n")
    clients = [lab.Raw().open(f"count-{i}") for i in range(20)]
    watcher = lab.Raw(tls=lab.context(b.pki)).open("watcher")
    watcher.send(lab.subscribe("$SYS/broker/clients/connected", qos=0))
    while True:
        first, body = watcher.receive()
        if first & 0xf0 == 0x30 and body.endswith(b"21"):
            break
    for c in clients:
        c.close()
    while not watcher.receive()[1].endswith(b"\x001"):
        pass
