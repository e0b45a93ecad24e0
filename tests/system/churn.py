#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Churn: plain and mTLS clients that connect, subscribe, publish, take over, are killed, leave half-way or send nonsense,
at the sanitized broker, for some minutes (`--minutes`, 30); then everything they left is taken away and every pool, timer and
heap must be back where it was after the same clean-up of a short first round. A finding of a sanitizer or an assertion
fails it. The short form is tests/system/test_churn.py."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lab  # noqa: E402

CONFIG = "sys_interval 1\nmax_queued_messages 200\n" + lab.CONFIG
TOOL = os.path.join(lab.BUILD, "bench/mqttchurn")


def churn(pki, seconds, seed, clients, rate):
    """Two generators at once; what each says of itself."""
    tools = []
    for port, more in ((lab.PLAIN, []), (lab.TLS, ["--cert", f"{pki}/client.pem", "--key", f"{pki}/client.key"])):
        tools.append(subprocess.Popen(
            [TOOL, "--host", lab.BROKER, "--port", str(port), *more, "--clients", str(clients), "--seconds", str(seconds),
             "--rate", str(rate), "--seed", str(seed + (1000 if more else 0))], stdout=subprocess.PIPE, text=True))
    said = [json.loads(t.communicate(timeout=seconds + 200)[0]) for t in tools]
    assert all(t.returncode == 0 for t in tools), said
    return said


def pools(broker):
    """The `pools` command: name -> (taken, most)."""
    start = len(broker.lines)
    broker.type("pools")
    end = time.time() + 10
    while time.time() < end and not any("bytes of messages" in line for line in broker.lines[start:]):
        time.sleep(0.02)
    text = "\n".join(broker.lines[start:])
    taken = {m[1]: (int(m[2]), int(m[3])) for m in re.finditer(r"^  pool ([^:]+): (\d+), at most (\d+)", text, re.M)}
    m = re.search(r"timers armed: (\d+)", text)
    taken["timers armed"] = (int(m[1]), 0)
    m = re.search(r"bytes of messages: (\d+), of the TLS heap: (\d+)", text)
    taken["bytes of messages"], taken["TLS heap"] = (int(m[1]), 0), (int(m[2]), 0)
    return taken


# These empty themselves as time passes (TIME-WAIT 60 s); what stands there is no leak.
def is_slow(name):
    return "time-wait" in name


def settled(broker, seconds):
    """Waits until the pools have not changed for three seconds; what they hold then."""
    last, since, end = None, time.time(), time.time() + seconds
    while time.time() < end:
        now = {k: v[0] for k, v in pools(broker).items() if not is_slow(k)}
        if now != last:
            last, since = now, time.time()
        elif time.time() - since > 3:
            break
        time.sleep(0.5)
    return last


def excess(base, now):
    """What is more than it was. The TLS heap keeps the chains of certificates and tickets' keys: one CA, one client."""
    slack = {"TLS heap": 4096}
    return {k: (base[k], now[k]) for k in now if now[k] > base[k] + slack.get(k, 0)}


def rss_kib(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * 4


def run(folder, pki, seconds, warm_up=4, clients=60, rate=1500, say=print, piece=60):
    b = lab.Broker(folder, pki, config=CONFIG, memory=128, seconds=int(seconds) + 900)
    try:
        assert lab.ping()
        churn(pki, warm_up, 1, clients, rate)
        base = settled(b, 30)
        say("baseline:", json.dumps(base))
        total, began, seed = {}, time.time(), 2
        while time.time() - began < seconds:
            for said in churn(pki, max(1, int(min(piece, seconds - (time.time() - began)))), seed, clients, rate):
                for k, v in said.items():
                    total[k] = total.get(k, 0) + v
            now = settled(b, 30)
            over = excess(base, now)
            say(f"{time.time() - began:.0f} s: {json.dumps(total)}; RSS {rss_kib(b.p.pid)} KiB; above the baseline: {over}")
            assert not over, over
            seed += 1
        say("most ever:", json.dumps({k: v[1] for k, v in pools(b).items() if v[1]}))
        assert total["connected"] > 0 and total["received"] > 0
        return total
    finally:
        code = b.stop()
        assert code == 0, "\n".join(b.lines[-40:])


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--clients", type=int, default=60)
    p.add_argument("--rate", type=int, default=1500, help="things a second, for plain and for mTLS clients")
    o = p.parse_args()
    lab.enter_namespace()
    lab.make_tap()
    with tempfile.TemporaryDirectory() as pki, tempfile.TemporaryDirectory() as folder:
        lab.make_pki(pki)
        run(folder, pki, o.minutes * 60, clients=o.clients, rate=o.rate,
            say=lambda *what: print(*what, flush=True))
    print("churn: held")


if __name__ == "__main__":
    main()
