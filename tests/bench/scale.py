#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Size: the hosted broker with 10 000 clients, a million subscriptions and 100 000 retained messages. Prints what each step
costs (broker CPU by the scheduler, wall time, the generator's share of its core), what it does to a client that has nothing
to do with it (tests/client/mqttprobe.c: residence in the broker, arrival to departure at the TAP, and the client's own
times), and the memory against the budget printed at the start. Broker on core 0, generator and probe on core 1; as root
the broker and the probe go before other programs (nice -15, or --realtime).
Fails when residence's p99 is over max(twice idle, 2 ms) in a step, or when a message costs more than twice as much among
all subscriptions as among 1 000."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/system"))
import churn  # noqa: E402
import lab  # noqa: E402

PROBE_PORT = 1885
CONFIG = f"network {lab.BROKER}/24\nallow_anonymous true\nlistener {lab.PLAIN}\nlistener {PROBE_PORT}\n"


def goes_first(pid, realtime):
    """So that the queue of a loaded machine is not what is measured."""
    if os.geteuid() == 0 and realtime:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(10))
    elif os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, pid, -15)


class Tool:
    """A client program that does a step a line."""

    def __init__(self, *command, core=1, first=None):
        def prepare():
            os.sched_setaffinity(0, {core % os.cpu_count()})
            if first is not None:
                goes_first(0, first)
        self.p = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  preexec_fn=prepare)

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        assert answer, f"{line}: the program ended"
        return json.loads(answer)

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(30) == 0


def cpu_seconds(pid):
    return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0]) for t in os.listdir(f"/proc/{pid}/task")) / 1e9


class Bench:
    def __init__(self, broker, idle_seconds, realtime):
        self.b, self.idle_seconds, self.idle_p99, self.failed = broker, idle_seconds, None, []
        self.probe = Tool(f"{lab.BUILD}/bench/mqttprobe", "tap0", lab.BROKER, PROBE_PORT, 2000, first=realtime)
        time.sleep(0.5)
        self.probe.say("")
        print(f"{'step':34} {'wall s':>8} {'broker s':>8} {'RSS MiB':>8} {'inside p50':>10} {'p99':>7} {'max':>8} "
              f"{'own p50':>8} {'p99':>7} {'generator':>9} {'probe':>6}   (times of the unrelated client in us)", flush=True)

    def step(self, name, run, judged=True):
        cpu, wall = cpu_seconds(self.b.p.pid), time.monotonic()
        self.probe.say("")
        said = run()
        p = self.probe.say("")
        wall, cpu = time.monotonic() - wall, cpu_seconds(self.b.p.pid) - cpu
        assert said.get("fine", True), f"{name}: {said}"
        limit = None if self.idle_p99 is None else max(2 * self.idle_p99, 2000)
        bad = judged and limit is not None and p["inside_p99"] > limit
        print(f"{name:34} {said.get('wall_s', wall):8.2f} {cpu:8.2f} {churn.rss_kib(self.b.p.pid) >> 10:8} "
              f"{p['inside_p50']:10.0f} {p['inside_p99']:7.0f} {p['inside_max']:8.0f} {p['own_p50']:8.0f} {p['own_p99']:7.0f} "
              f"{said.get('generator_share', 0):9.2f} {p['probe_share']:6.2f}{'   OVER' if bad else ''}", flush=True)
        if bad:
            self.failed.append(f"{name}: residence p99 {p['inside_p99']:.0f} us, at most {limit:.0f}")
        return cpu, p

    def idle(self, name):
        _, p = self.step(name, lambda: time.sleep(self.idle_seconds) or {}, judged=False)
        self.idle_p99 = p["inside_p99"]


def messages(bench, tool, count, among):
    """CPU us a message, to one topic and to topics at random."""
    one, _ = bench.step(f"{count} messages, one topic, {among}", lambda: tool.say(f"same {count}"))
    any_, _ = bench.step(f"{count} messages, any topic, {among}", lambda: tool.say(f"any {count}"))
    return one / count * 1e6, any_ / count * 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clients", type=int, default=10000)
    p.add_argument("--filters", type=int, default=100, help="a client's")
    p.add_argument("--retained", type=int, default=100000)
    p.add_argument("--messages", type=int, default=200000)
    p.add_argument("--memory", type=int, default=3072)
    p.add_argument("--idle", type=float, default=5, help="seconds")
    p.add_argument("--realtime", action="store_true", help="broker and probe before everything else (SCHED_RR)")
    o = p.parse_args()
    lab.enter_namespace()
    lab.make_tap()
    with tempfile.TemporaryDirectory() as pki, tempfile.TemporaryDirectory() as folder:
        lab.make_pki(pki)
        b = lab.Broker(folder, pki, config=CONFIG, memory=o.memory, binary="hosted", seconds=900)
        os.sched_setaffinity(b.p.pid, {0})
        goes_first(b.p.pid, o.realtime)
        for line in b.lines:
            if line.startswith(("memory:", "        +")):
                print(line)
        assert lab.ping()
        bench = Bench(b, o.idle, o.realtime)
        bench.idle("idle, empty")
        tool = [f"{lab.BUILD}/bench/mqttscale", "--host", lab.BROKER]
        few = Tool(*tool, "--clients", 10, "--filters", 100)
        few.say("connect")
        few.say("subscribe")
        messages(bench, few, o.messages // 4, "warm-up")
        small = messages(bench, few, o.messages, "1 000 filters")
        few.end()
        many = Tool(*tool, "--clients", o.clients, "--filters", o.filters, "--retained", o.retained)
        total = o.clients * o.filters
        bench.step(f"{o.clients} clients come", lambda: many.say("connect"))
        bench.idle(f"idle, {o.clients} clients")
        bench.step(f"{total} subscriptions", lambda: many.say("subscribe"))
        bench.step(f"{o.retained} retained messages, QoS 1", lambda: many.say("retain"))
        bench.idle("idle, all of it")
        bench.step("their replay to one, 3 times", lambda: many.say("replay 3"))
        large = messages(bench, many, o.messages, f"{total} filters")
        held = {k: v[0] for k, v in churn.pools(b).items() if v[0]}
        print("held:", json.dumps(held))
        assert held["subscription"] == total
        bench.step("everybody goes", lambda: many.end() or time.sleep(2) or {})
        bench.probe.end()
        assert b.stop() == 0
        for name, few_us, many_us in (("one topic", small[0], large[0]), ("any topic", small[1], large[1])):
            print(f"a message, {name}: {few_us:.2f} us of CPU among 1 000, {many_us:.2f} among {total}: x{many_us / few_us:.2f}")
        if large[0] > 2 * small[0]:
            bench.failed.append("a message to one topic costs more than twice as much")
        for line in bench.failed:
            print("FAILED:", line)
        print("scale:", "FAILED" if bench.failed else "held")
        return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
