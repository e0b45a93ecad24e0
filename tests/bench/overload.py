#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Overload: more clients than the broker can serve, each an mTLS handshake, CONNECT, CONNACK and a close by the client, again
and again (tests/client/mqttstorm.c). First the capacity C with few clients, then crowds with each retry policy, silent
connections, and a crowd of which each comes in once. Shown of each: served a second and a second of the broker's CPU, the
generator's share of its core (near 1: it is the limit, and served/s says nothing), and an unrelated client
(tests/client/mqttprobe.c: residence in the broker, arrival to departure at the TAP, and its own times).
Fails when a crowd is served at less than 0.9 of the best rate a CPU second, when residence's p99 is over max(2x idle, 2 ms),
when N clients that come once take longer than 1.2 N/C + 3 s, or when memory grows."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/system"))
sys.path.insert(0, os.path.join(ROOT, "tests/bench"))
import churn  # noqa: E402
import lab  # noqa: E402
from scale import Tool, cpu_seconds, goes_first  # noqa: E402

PROBE_PORT = 1885
SOURCES = 7


def config(key):
    return (f"network {lab.BROKER}/24\nallow_anonymous true\nlistener {PROBE_PORT}\n"
            f"listener {lab.TLS}\ncafile ca.pem\ncertfile {key}.pem\nkeyfile {key}.key\nrequire_certificate true\n")


def make_key(pki, kind):
    """A server key that makes a handshake dear, so that this program's clients are not the limit."""
    if kind == "p256":
        return "server"
    run = lambda *a: subprocess.run(["openssl", *a], check=True, cwd=pki, capture_output=True)  # noqa: E731
    run("genrsa", "-out", f"{kind}.key", kind.removeprefix("rsa"))
    run("req", "-new", "-key", f"{kind}.key", "-subj", "/CN=server", "-out", f"{kind}.csr")
    run("x509", "-req", "-in", f"{kind}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
        "-extfile", "ext", "-out", f"{kind}.pem")
    return kind


class Overload:
    """A broker under crowds. `probe`: a client on the TAP that has nothing to do with them; None beside mosquitto."""

    def __init__(self, pki, host, pid, sources, probe=None):
        self.pki, self.host, self.pid, self.sources, self.probe = pki, host, pid, sources, probe
        self.failed, self.idle_p99, self.best = [], None, 0
        print(f"{'clients':34} {'served/s':>9} {'/CPU s':>7} {'broker':>6} {'gener.':>6} {'timeout':>8} {'refused':>8} "
              f"{'p50 s':>7} {'max s':>7} {'RSS MiB':>8} {'inside p50':>10} {'p99':>6} {'own p99':>8}", flush=True)

    def storm(self, name, clients, *extra, judged=True, seconds=5):
        command = [f"{lab.BUILD}/bench/mqttstorm", "--host", self.host, "--port", lab.TLS, "--from", self.sources, "--sources",
                   SOURCES, "--cert", f"{self.pki}/client.pem", "--key", f"{self.pki}/client.key", "--clients", clients,
                   "--seconds", seconds, *extra]
        if self.probe:
            self.probe.say("")
        cpu, wall = cpu_seconds(self.pid), time.monotonic()
        out = subprocess.run(["taskset", "-c", str(1 % os.cpu_count()), *map(str, command)], check=True, capture_output=True,
                             text=True).stdout
        cpu, wall = cpu_seconds(self.pid) - cpu, time.monotonic() - wall
        r = json.loads(out.splitlines()[-1])
        r["per_cpu_s"] = r["served"] / cpu if cpu > 0 else 0
        low = judged and self.best and r["per_cpu_s"] < 0.9 * self.best
        print(f"{name:34} {r['per_s']:9.0f} {r['per_cpu_s']:7.0f} {cpu / wall:6.2f} {r['generator_share']:6.2f} "
              f"{r['timeouts']:8} {r['refused']:8} {r['p50_s']:7.3f} {r['max_s']:7.2f} {churn.rss_kib(self.pid) >> 10:8}"
              f"{self.judge_probe(name)}{'   LOW' if low else ''}", flush=True)
        if low:
            self.failed.append(f"{name}: {r['per_cpu_s']:.0f} a CPU second, best {self.best:.0f}")
        return r

    def judge_probe(self, name):
        if not self.probe:
            return ""
        p = self.probe.say("")
        limit = max(2 * self.idle_p99, 2000)
        over = p["inside_p99"] > limit
        if over:
            self.failed.append(f"{name}: residence p99 {p['inside_p99']:.0f} us, at most {limit:.0f}")
        return f" {p['inside_p50']:10.0f} {p['inside_p99']:6.0f} {p['own_p99']:8.0f}{'   LATE' if over else ''}"

    def idle(self, seconds):
        self.probe.say("")
        time.sleep(seconds)
        p = self.probe.say("")
        self.idle_p99 = p["inside_p99"]
        print(f"{'idle':34} {'':72} {p['inside_p50']:10.0f} {p['inside_p99']:6.0f} {p['own_p99']:8.0f}")

    def sweep(self, o):
        few = [self.storm(f"{n} clients, retry 0", n, "--retry", 0, judged=False, seconds=o.seconds) for n in (4, 8, 16)]
        self.best = max(r["per_cpu_s"] for r in few)
        for clients in o.clients:
            for retry in o.retry:
                self.storm(f"{clients} clients, retry {retry}", clients, "--retry", retry, seconds=o.seconds)
        self.storm("16 clients, 1 000 silent a second", 16, "--retry", 0, "--silent", 1000, judged=False,
                   seconds=2 * o.seconds)
        capacity, n = max(r["per_s"] for r in few), max(o.clients)
        for retry in ("0", "100"):
            r = self.storm(f"{n} clients once, retry {retry}", n, "--once", "--retry", retry, judged=False, seconds=60)
            limit = 1.2 * n / capacity + 3
            print(f"    {r['clients_served']} in after {r['wall_s']:.2f} s, at most {limit:.2f}")
            if r["clients_served"] < n or r["wall_s"] > limit:
                self.failed.append(f"{n} clients once, retry {retry}: {r['clients_served']} in {r['wall_s']:.2f} s, at most "
                                   f"{limit:.2f}")
        self.storm("16 clients, retry 0, afterwards", 16, "--retry", 0, seconds=2)


def ours(o, pki, folder, key):
    b = lab.Broker(folder, pki, config=config(key), memory=o.memory, binary="hosted", seconds=1800,
                   files=(f"{key}.pem", f"{key}.key"))
    os.sched_setaffinity(b.p.pid, {0})
    goes_first(b.p.pid, o.realtime)
    assert lab.ping()
    probe = Tool(f"{lab.BUILD}/bench/mqttprobe", "tap0", lab.BROKER, PROBE_PORT, 2000, first=o.realtime)
    t = Overload(pki, lab.BROKER, b.p.pid, "10.9.0.101", probe)
    t.idle(o.seconds)
    t.sweep(o)
    probe.end()
    assert b.stop() == 0
    return t.failed


def mosquittos(o, pki, folder, key):
    """The same beside Debian's mosquitto over veth, nothing judged."""
    name = f"mos{os.getpid()}"
    conf = os.path.join(folder, "mosquitto.conf")
    with open(conf, "w") as f:
        f.write(f"listener {lab.TLS}\ncafile {pki}/ca.pem\ncertfile {pki}/{key}.pem\nkeyfile {pki}/{key}.key\n"
                "require_certificate true\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n")
    lab.sh(f"ip netns add {name}; ip link add ve0 type veth peer name ve1 netns {name}; ip addr add 10.8.0.1/24 dev ve0; "
           f"ip link set ve0 up; ip -n {name} addr add 10.8.0.2/24 dev ve1; ip -n {name} link set ve1 up; "
           + ";".join(f"ip addr add 10.8.0.{101 + i}/24 dev ve0" for i in range(SOURCES)))
    p = subprocess.Popen(["ip", "netns", "exec", name, "taskset", "-c", "0", shutil.which("mosquitto", path="/usr/sbin:/usr/bin"),
                          "-c", conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        goes_first(p.pid, o.realtime)
        time.sleep(1)
        print("\nmosquitto")
        Overload(pki, "10.8.0.2", p.pid, "10.8.0.101").sweep(o)
    finally:
        p.terminate()
        p.wait(10)
        lab.sh(f"ip netns del {name}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clients", type=lambda s: [int(n) for n in s.split(",")], default=[128, 256, 512, 2048])
    p.add_argument("--retry", type=lambda s: s.split(","), default=["0", "100", "1000", "exp"])
    p.add_argument("--seconds", type=int, default=5)
    p.add_argument("--memory", type=int, default=512)
    p.add_argument("--key", choices=["p256", "rsa2048"], default="p256")
    p.add_argument("--mosquitto", action="store_true", help="the same beside mosquitto, for comparison")
    p.add_argument("--realtime", action="store_true", help="broker and probe before everything else (SCHED_RR)")
    o = p.parse_args()
    lab.enter_namespace()
    lab.make_tap()
    lab.sh("sysctl -q -w net.ipv4.tcp_tw_reuse=1")
    for i in range(SOURCES):
        lab.sh(f"ip addr add 10.9.0.{101 + i}/24 dev tap0")
    with tempfile.TemporaryDirectory() as pki, tempfile.TemporaryDirectory() as folder:
        lab.make_pki(pki)
        key = make_key(pki, o.key)
        failed = ours(o, pki, folder, key)
        if o.mosquitto:
            mosquittos(o, pki, folder, key)
    for line in failed:
        print("FAILED:", line)
    print("overload:", "FAILED" if failed else "held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
