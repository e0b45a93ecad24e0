#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""urMQTT's hosted broker and Debian's mosquitto side by side in one run: the same C client (mqttload), broker on core
0, client on core 1, cells interleaved and repeated. Ours is reached over a TAP device, mosquitto over loopback and
over veth (the better counts). Broker CPU is utime + stime of the process from /proc, split shown; a figure per
delivery or per handshake is CPU seconds / count. Needs root (namespaces). Ratios are what to quote: the machine is
shared. Usage: bench.py [all|flow|handshake|memory] [--json FILE] [--rounds N] [--seconds N]"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOAD = os.path.join(ROOT, "build/bench/mqttload")
IDLE_MEMORY = os.path.join(ROOT, "build/bench/idle_memory")
STACK = os.path.join(ROOT, "build/bench/stack")
BROKER = os.path.join(ROOT, "build/hosted/urmqtt")
PKI = os.path.join(ROOT, "build/pki")
OURS, THEIRS = f"urb{os.getpid() % 10000}", f"mob{os.getpid() % 10000}"


def sh(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True)


def cpu_of(pid):
    """User and system seconds. The sum is the scheduler's own (ns); its split that of the clock ticks."""
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    total = int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9
    return total * user / max(user + system, 1), total * system / max(user + system, 1)


def rss_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1))


def wait_port(netns, host, port, process, seconds=20):
    probe = f"ip netns exec {netns} bash -c 'exec 3<>/dev/tcp/{host}/{port}' 2>/dev/null"
    end = time.time() + seconds
    while time.time() < end:
        if process.poll() is not None:
            return False
        if subprocess.run(probe, shell=True).returncode == 0:
            return True
        time.sleep(0.1)
    return False


class Target:
    """A broker that listens: where clients run, its address, its process."""

    def __init__(self, name, netns, host, process, log):
        self.name, self.netns, self.host, self.process, self.log = name, netns, host, process, log

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start_ours(work, memory_mib=2048):
    config = os.path.join(work, "config")
    os.makedirs(config, exist_ok=True)
    for name in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, name), config)
    with open(os.path.join(config, "urmqtt.conf"), "w") as f:
        f.write("listener 1883\nallow_anonymous true\nmax_queued_messages 60000\nmax_inflight_messages 100\n"
                "listener 8883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
                "require_certificate true\nuse_identity_as_username true\n"
                "network 10.77.0.2/16\n")
    sh(f"ip netns add {OURS} && ip -n {OURS} link set lo up && ip -n {OURS} tuntap add dev ur0 mode tap vnet_hdr && "
       f"ip -n {OURS} addr add 10.77.0.1/16 dev ur0 && ip -n {OURS} link set ur0 up && "
       f"for i in 1 2 3 4 5 6 7; do ip -n {OURS} addr add 10.77.1.$i/16 dev ur0; done")
    log = open(os.path.join(work, "urmqtt.log"), "w")
    p = subprocess.Popen(["ip", "netns", "exec", OURS, "taskset", "-c", "0", BROKER, "--tap", "ur0", "--config", config,
                          "--memory", str(memory_mib)], stdout=log, stderr=log)
    if not wait_port(OURS, "10.77.0.2", 1883, p):
        sys.exit("bench: urMQTT did not start:\n" + open(log.name).read())
    return Target("urmqtt tap", OURS, "10.77.0.2", p, log.name)


def mosquitto_conf(work, name):
    path = os.path.join(work, name + ".conf")
    with open(path, "w") as f:
        f.write("per_listener_settings true\nlistener 1883\nallow_anonymous true\nmax_queued_messages 0\n"
                "max_inflight_messages 100\nset_tcp_nodelay true\n"
                f"listener 8883\ncafile {PKI}/ca.crt\ncertfile {PKI}/server.crt\nkeyfile {PKI}/server.key\n"
                "require_certificate true\nuse_identity_as_username true\nallow_anonymous false\nset_tcp_nodelay true\n"
                "user root\n")
    return path


def start_mosquitto(work, over):
    client, server = THEIRS + "c", THEIRS + "s"
    if over == "veth":
        sh(f"ip netns add {client} && ip netns add {server} && "
           f"ip link add ve0 netns {client} type veth peer name ve1 netns {server} && "
           f"ip -n {client} addr add 10.78.0.1/16 dev ve0 && ip -n {server} addr add 10.78.0.2/16 dev ve1 && "
           f"ip -n {client} link set ve0 up && ip -n {server} link set ve1 up && ip -n {server} link set lo up && "
           f"for i in 1 2 3 4 5 6 7; do ip -n {client} addr add 10.78.1.$i/16 dev ve0; done")
        host = "10.78.0.2"
    else:
        client = server = THEIRS + "l"
        sh(f"ip netns add {client} && ip -n {client} link set lo up")
        host = "127.0.0.1"
    log = open(os.path.join(work, f"mosquitto-{over}.log"), "w")
    binary = shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
    p = subprocess.Popen(["ip", "netns", "exec", server, "taskset", "-c", "0", binary, "-c",
                          mosquitto_conf(work, over)], stdout=log, stderr=log)
    if not wait_port(client, host, 1883, p):
        sys.exit("bench: mosquitto did not start:\n" + open(log.name).read())
    return Target("mosquitto " + over, client, host, p, log.name)


def clean_up():
    for name in (OURS, THEIRS + "c", THEIRS + "s", THEIRS + "l"):
        sh(f"ip netns del {name}", check=False)


def measure(target, arguments, timeout=180):
    """Runs mqttload against the target; returns its JSON with the broker's CPU seconds while it measured."""
    command = ["ip", "netns", "exec", target.netns, "taskset", "-c", "1", LOAD, *arguments, "--host", target.host]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if p.stdout.readline().strip() != "ready":
        p.kill()
        return None
    user0, system0 = cpu_of(target.process.pid)
    out, _ = p.communicate("go\n", timeout=timeout)
    user1, system1 = cpu_of(target.process.pid)
    result = json.loads(out)
    result["failed_run"] = p.returncode != 0
    result["broker_user_s"], result["broker_system_s"] = user1 - user0, system1 - system0
    result["broker_cpu_s"] = user1 - user0 + system1 - system0
    return result


TLS = ["--port", "8883", "--cert", f"{PKI}/client.crt", "--key", f"{PKI}/client.key"]


def cells(seconds):
    flow = ["flow", "--port", "1883", "--seconds", str(seconds)]
    return {
        "qos0 1-1": (flow, "delivered"),
        "qos0 1-100": (flow + ["--subscribers", "100"], "delivered"),
        "qos1 1-1": (flow + ["--qos", "1"], "delivered"),
        "qos1 1-100": (flow + ["--qos", "1", "--subscribers", "100"], "delivered"),
        "qos0 1-1 mtls": (["flow", "--seconds", str(seconds)] + TLS, "delivered"),
        "handshake cold": (["handshakes", "--count", "500", "--parallel", "4", "--fresh", f"{PKI}/ca.key"] + TLS, "done"),
        "handshake warm": (["handshakes", "--count", "500", "--parallel", "4"] + TLS, "done"),
        "handshake resumed": (["handshakes", "--count", "500", "--parallel", "4", "--resume"] + TLS, "done"),
    }


def run_cells(targets, wanted, rounds, seconds):
    table = {}
    for name, (arguments, counter) in cells(seconds).items():
        if wanted != "all" and not name.startswith({"flow": "qos", "handshake": "handshake"}.get(wanted, wanted)):
            continue
        for _ in range(rounds):
            for t in targets:
                r = measure(t, arguments)
                if r is None or r["failed_run"] or r[counter] == 0:
                    print(f"bench: {t.name} failed in cell {name}: {r}", file=sys.stderr)
                    table.setdefault(name, {}).setdefault(t.name, []).append(None)
                    continue
                r["us_each"] = 1e6 * r["broker_cpu_s"] / r[counter]
                r["us_user"], r["us_system"] = (1e6 * r[k] / r[counter] for k in ("broker_user_s", "broker_system_s"))
                table.setdefault(name, {}).setdefault(t.name, []).append(r)
    return table


def null_device(work):
    """build/bench/stack: the primitives of a handshake, and whole handshakes beside a null device (microseconds)."""
    path = os.path.join(work, "stack.json")
    subprocess.run(["taskset", "-c", "0", STACK, "--rounds", "500", "--json", path], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    return {k: v / 1000 for k, v in json.load(open(path)).items()}


def verdicts(cells_out, null):
    """Minima of all rounds, as the primitives': what others do on this machine is not our cost.
    The bar of DESIGN 11: a full mutual handshake with CONNECT <= the primitives' sum + 60 us, and <= 1/3 of
    mosquitto's. `cold`: the broker has never seen the client's certificate; `warm`: it knows the chain (docs/adr/0011)
    and checks possession of the key, dates and revocation only."""
    bar = null["sum"] + 60
    print(f"\nprimitives here and now: X25519 {null['X25519 key pair']:.1f} + {null['X25519 derive']:.1f}, P-256 sign "
          f"{null['P-256 sign']:.1f}, verify 2 x {null['P-256 verify']:.1f}: sum {null['sum']:.1f} us, bar {bar:.1f} us")
    print(f"{'full handshake + CONNECT':28} {'us':>8} {'- sum':>7}   <= sum + 60   <= mosquitto / 3")
    out = {"bar_us": bar, "primitives": null}
    for kind in ("cold", "warm"):
        own = null[kind]
        tap = next((r["best"] | {"ratio": r["best_ratio"]} for n, r in cells_out.get("handshake " + kind, {}).items()
                    if n.startswith("urmqtt")), None)
        print(f"{kind + ', null device':28} {own:8.1f} {own - null['sum']:7.1f}   {'met' if own <= bar else 'NOT MET':11}")
        out[kind] = {"null_us": own, "null_met": own <= bar}
        if tap:
            third = tap["ratio"] is not None and tap["ratio"] >= 3
            print(f"{kind + ', TAP':28} {tap['us_each']:8.1f} {tap['us_each'] - null['sum']:7.1f}   "
                  f"{'met' if tap['us_each'] <= bar else 'NOT MET':11}   "
                  f"{'met' if third else 'NOT MET' if tap['ratio'] else 'not measured'}"
                  f"  (user {tap['us_user']:.1f}, system {tap['us_system']:.1f})")
            out[kind].update(tap_us=tap["us_each"], tap_met=tap["us_each"] <= bar, third_met=third)
    return out


def open_idle(target, tls, count):
    """Idle connections, at most 9 500 a client process (its file limit); returns the processes or None."""
    processes = []
    source = "127.0.1.1" if target.host.startswith("127.") else target.host.rpartition(".")[0][:-1] + "1.1"
    while count > 0:
        n = min(count, 9500)
        arguments = ["idle", "--count", str(n), "--parallel", "100", "--from", source, "--sources", "7"]
        arguments += TLS if tls else ["--port", "1883"]
        p = subprocess.Popen(["ip", "netns", "exec", target.netns, "taskset", "-c", "1", LOAD, *arguments, "--host",
                              target.host], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(p)
        if p.stdout.readline().strip() != "ready":
            close_idle(processes)
            return None
        count -= n
    return processes


def close_idle(processes):
    for p in processes:
        try:
            p.communicate("go\n", timeout=120)
        except (BrokenPipeError, ValueError):
            p.kill()
    return all(p.returncode == 0 for p in processes)


def memory(target, tls):
    """Resident bytes per idle connection after one message each way: the slope between two counts (beside it the
    pools' own sum, build/bench/idle_memory). mosquitto has a
    file descriptor a connection, so its upper count stays below this machine's limit of 20 000."""
    low, high = 2000, 20000 if target.name.startswith("urmqtt") else 18000
    points = []
    for count in (low, high):
        processes = open_idle(target, tls, count)
        if processes is None:
            return None
        time.sleep(2)
        points.append(rss_kib(target.process.pid))
        if not close_idle(processes):
            return None
        time.sleep(2)
    return 1024 * (points[1] - points[0]) / (high - low)


def summary(table):
    print(f"\n{'cell':20} {'broker':20} {'us each':>9} {'user':>7} {'system':>7} {'rate/s':>10}   ratio to mosquitto's better")
    out = {}
    for cell, by_target in table.items():
        medians, bests = {}, {}
        for name, runs in by_target.items():
            good = [r for r in runs if r]
            if good:
                mid = statistics.median_low([r["us_each"] for r in good])
                medians[name] = next(r for r in good if r["us_each"] == mid)
                bests[name] = min(good, key=lambda r: r["us_each"])
        theirs = [r["us_each"] for n, r in medians.items() if n.startswith("mosquitto")]
        their_best = [r["us_each"] for n, r in bests.items() if n.startswith("mosquitto")]
        for name, r in medians.items():
            ratio = min(theirs) / r["us_each"] if theirs and name.startswith("urmqtt") else None
            text = f"{ratio:.2f}x less CPU" if ratio else ""
            print(f"{cell:20} {name:20} {r['us_each']:9.2f} {r['us_user']:7.2f} {r['us_system']:7.2f} "
                  f"{r['per_s']:10.0f}   {text}")
            out.setdefault(cell, {})[name] = {**{k: r[k] for k in ("us_each", "us_user", "us_system", "per_s")},
                                              "ratio": ratio, "runs": len(by_target[name])}
            if name.startswith("urmqtt"):
                best = bests[name]
                out[cell][name]["best"] = {k: best[k] for k in ("us_each", "us_user", "us_system")}
                out[cell][name]["best_ratio"] = min(their_best) / best["us_each"] if their_best else None
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="all", choices=["all", "flow", "handshake", "memory"])
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only-mosquitto", action="store_true", help="the other broker alone, to try the harness")
    a = parser.parse_args()
    work = tempfile.mkdtemp(prefix="urmqtt-bench-")
    targets, result = [], {}
    try:
        if not a.only_mosquitto:
            targets.append(start_ours(work))
        targets += [start_mosquitto(work, "loopback"), start_mosquitto(work, "veth")]
        if a.what != "memory":
            null = [null_device(work)] if a.what in ("all", "handshake") else []
            table = run_cells(targets, a.what, a.rounds, a.seconds)
            result["cells"] = summary(table)
            if null:  # before and after the cells: the machine is shared
                null.append(null_device(work))
                result["handshake"] = verdicts(result["cells"], {k: min(null[0][k], null[1][k]) for k in null[0]})
        if a.what in ("all", "memory"):
            result["memory_per_idle_connection"] = {}
            path = os.path.join(work, "idle.json")
            subprocess.run([IDLE_MEMORY, "--json", path], cwd=ROOT, check=True)
            pools = json.load(open(path))
            result["pools_per_idle_connection"] = pools
            for index, t in enumerate(targets):
                if t.name == "mosquitto veth":
                    continue
                for tls in (False, True):
                    if t.name.startswith("urmqtt"):  # pools keep what they have touched: a new process each time
                        t.stop()
                        sh(f"ip netns del {OURS}", check=False)
                        t = targets[index] = start_ours(work, 512)
                    slope = memory(t, tls)
                    key = f"{t.name} {'mtls' if tls else 'plain'}"
                    result["memory_per_idle_connection"][key] = slope
                    own = pools["mtls" if tls else "plain"]
                    print(f"memory per idle connection, {key}: "
                          + (f"{slope:.0f} bytes resident" if slope else "failed")
                          + (f", {own:.0f} in the pools" if t.name.startswith("urmqtt") else ""), flush=True)
    finally:
        for t in targets:
            t.stop()
        clean_up()
        shutil.rmtree(work, ignore_errors=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(result, f, indent=2)


if __name__ == "__main__":
    main()
