# SPDX-License-Identifier: Apache-2.0
"""Proves: faults that users of other brokers have reported and that need a wire do not happen here: a client that half closes
does not make us spin, a bridge whose target or name server is silent delays nobody, a crowd that reconnects again and again
gets in, harms nobody and leaves no memory behind. docs/conformance.md lists every report and its test."""
import os
import socket
import statistics
import threading
import time

import churn
import lab
from lab import BROKER, PING, Raw


def cpu_seconds(broker):
    tasks = f"/proc/{broker.p.pid}/task"
    return sum(int(open(f"{tasks}/{t}/schedstat").read().split()[0]) for t in os.listdir(tasks)) / 1e9


def pings(raw, seconds):
    """Seconds of each PINGREQ until its PINGRESP, for so long."""
    times, end = [], time.time() + seconds
    while time.time() < end:
        start = time.time()
        assert raw.send(PING).receive() == (0xd0, b"")
        times.append(time.time() - start)
        time.sleep(0.02)
    return times


def test_busy_after_a_client_closed(start, pki):  # mosquitto 2807
    b = start()
    assert lab.ping()
    idle = cpu_seconds(b)
    time.sleep(2)
    idle = cpu_seconds(b) - idle
    half = []
    for k in range(6):
        tls = k % 2 == 0
        r = Raw(lab.context(pki) if tls else None).open(f"half{k}")
        if k < 2:  # an alert or nothing, then FIN, while the other direction stays open
            socket.socket.shutdown(r.s, socket.SHUT_WR)
        elif k < 4:  # half a packet, then FIN
            r.send(b"\x30\x7f\0\1t")
            socket.socket.shutdown(r.s, socket.SHUT_WR)
        else:
            r.kill()
        half.append(r)
    time.sleep(0.5)
    busy = cpu_seconds(b)
    time.sleep(2)
    busy = cpu_seconds(b) - busy
    assert busy < max(0.2, 3 * idle), (busy, idle)
    assert pings(Raw().open("other"), 0.5)
    for r in half:
        r.s.close()
    assert b.stop() == 0


def test_silent_bridge_target_delays_others(start):  # mosquitto 41, 802, 1530, 3402, 3108
    b = start(config=f"network {BROKER}/24 gateway 10.9.0.1\ndns 10.9.0.77\nlistener 1883\nallow_anonymous true\n"
              "connection nobody\naddress 10.9.0.78:1883\ntopic # both\nrestart_timeout 1 1\n"
              "connection noname\naddress broker.example:1883\ntopic # both\nrestart_timeout 1 1\n")
    assert lab.ping()
    raw = Raw().open("other")
    before = cpu_seconds(b)
    times = pings(raw, 8)
    assert statistics.median(times) < 0.05 and max(times) < 1, (statistics.median(times), max(times))
    assert cpu_seconds(b) - before < 3
    b.wait("bridge noname: no name server answered")
    assert b.stop() == 0


def test_crowd_that_comes_back_again_and_again(start, pki):  # mosquitto 2095, 2101, 2830; rabbitmq 14296; emqx 3277
    b = start(memory=512)
    assert lab.ping()
    other = Raw(lab.context(pki)).open("other")
    held, slow = [], []

    def crowd(count, name):
        context, got = lab.context(pki), []

        def come(k):
            end = time.time() + 60
            while time.time() < end:
                try:
                    got.append(Raw(context).open(f"{name}{k}"))
                    return
                except (OSError, AssertionError, TypeError):
                    time.sleep(0.1)
        threads = [threading.Thread(target=come, args=(k,)) for k in range(count)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            slow.extend(pings(other, 0.2))
        return got

    for round_ in range(4):
        got = crowd(50, f"r{round_}-")
        assert len(got) == 50
        for raw in got:
            raw.kill()
        held.append(churn.settled(b, 20)["TLS heap"])
    assert max(held[1:]) <= held[0] * 1.05 + 4096, held  # the second crowd takes no more than the first left
    assert statistics.median(slow) < 0.5, statistics.median(slow)
    assert b.stop() == 0
