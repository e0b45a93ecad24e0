#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bulk goodput of src/net beside Linux's own TCP (with CUBIC, whatever the machine's default is) over the same bad
wire (wire.py), both directions, interleaved.

Usage: goodput.py [--kind netem|vm|python] [--rounds N] [--seconds N] [--delay-ms N]. Needs root and build/test/net_echo
(`make build/test/net_echo`). Prints Mbit/s, the median of the rounds: `sends` is from the machine under test to Linux,
`receives` the other way; the wire loses the given part of the frames each way. Ends with 1 when ours is below 0.9 of
Linux's in any line (a figure of a busy machine: look at the rounds)."""
import argparse
import os
import select
import socket
import statistics
import subprocess
import sys
import threading
import time

import lab
import wire
import wire_vm

SIZE = 4 << 20
CASES = [("no loss", {}), ("loss 1 %", {"loss": 1}), ("loss 3 %", {"loss": 3}), ("loss 10 %", {"loss": 10}),
         ("reordered 5 %", {"reorder": 5})]


def linux_server():
    """Port 19 sends SIZE bytes, port 9 discards: what net_echo does, by Linux's stack, on 10.9.0.2."""
    def one(s, port):
        try:
            if port == 19:
                s.sendall(bytes(SIZE))
            while s.recv(1 << 16):
                pass
        except OSError:
            pass
        s.close()

    def serve(listener, port):
        while True:
            threading.Thread(target=one, args=(listener.accept()[0], port), daemon=True).start()

    for port in (9, 19):
        listener = socket.create_server(("", port))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        threading.Thread(target=serve, args=(listener, port), daemon=True).start()


def peer_main():
    """In the far namespace: reads `PORT SECONDS`, answers with bytes and seconds."""
    for line in sys.stdin:
        port, limit = int(line.split()[0]), float(line.split()[1])
        done, start = 0, time.monotonic()
        try:
            s = socket.socket()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            s.settimeout(20)
            s.connect((lab.BROKER, port))
            start = time.monotonic()
            while time.monotonic() - start < limit and done < SIZE:
                left = max(0.01, limit - (time.monotonic() - start))
                s.settimeout(left)
                if port == 19:
                    piece = len(s.recv(1 << 16))
                    if piece == 0:
                        break
                else:
                    piece = s.send(bytes(min(1 << 16, SIZE - done)))
                done += piece
            if port == 9:
                # What lies in the socket has not arrived: wait until the peer has acknowledged it.
                while time.monotonic() - start < limit and unsent(s) > 0:
                    time.sleep(0.002)
                done -= unsent(s)
            spent = time.monotonic() - start
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
        except (TimeoutError, OSError):
            spent = time.monotonic() - start
        print(done, spent, flush=True)


def unsent(s):
    import fcntl
    import termios
    return int.from_bytes(fcntl.ioctl(s, termios.TIOCOUTQ, b"\0" * 4), "little")


class Lab:
    def __init__(self, kind, properties):
        self.wire = wire.Wire(kind, **properties)

    def __enter__(self):
        self.wire.__enter__()
        self.peer = subprocess.Popen(["unshare", "-n", sys.executable, os.path.abspath(__file__), "--peer"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(0.3)
        # The wire's own end stays: a TAP that moves goes down for a moment, and its reader with it.
        lab.sh("ip link add far0 type veth peer name far1; ip link add br1 type bridge; ip link set far0 master br1; "
               f"ip link set {self.wire.right} master br1; ip link set far0 up; ip link set br1 up")
        lab.sh(f"ip link set far1 netns {self.peer.pid}")
        inside = f"nsenter -t {self.peer.pid} -n"
        lab.sh(f"{inside} ip addr add {lab.LINUX}/24 dev far1; {inside} ip link set far1 up")
        lab.sh("ip tuntap add dev tap1 mode tap vnet_hdr; ip link set tap1 up; ip link add br0 type bridge; "
               f"ip link set {self.wire.left} up; ip link set br0 up")
        return self

    def ours(self, on):
        lab.sh(f"ip addr flush dev {self.wire.left}; ip neigh flush all")
        lab.sh(f"nsenter -t {self.peer.pid} -n ip neigh flush all; nsenter -t {self.peer.pid} -n ip tcp_metrics flush")
        if on:
            lab.sh(f"ip link set tap1 master br0; ip link set {self.wire.left} master br0")
        else:
            lab.sh(f"ip link set {self.wire.left} nomaster; ip addr add {lab.BROKER}/24 dev {self.wire.left}")
            lab.sh("ip tcp_metrics flush")

    def measure(self, port, seconds):
        self.peer.stdin.write(f"{port} {seconds}\n")
        self.peer.stdin.flush()
        if not select.select([self.peer.stdout], [], [], seconds + 30)[0]:
            return 0.0
        done, spent = self.peer.stdout.readline().split()
        return int(done) * 8 / max(float(spent), 0.001) / 1e6

    def __exit__(self, *_):
        self.peer.stdin.close()
        self.peer.wait(10)
        lab.sh("ip link del br0; ip link del br1; ip link del tap1; ip link del far0 2>/dev/null || true")
        self.wire.__exit__()


def case(o, name, properties):
    """Both stacks, both directions, interleaved; False when ours is below nine tenths."""
    got = {}
    with Lab(o.kind, {"delay_ms": o.delay_ms, **properties}) as l:
        l.ours(False)
        e = subprocess.Popen([os.path.join(lab.BUILD, "test", "net_echo"), "--tap", "tap1", "--memory", "64", "--seconds",
                              "600"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=e.stdout.read, daemon=True).start()
        try:
            time.sleep(0.5)
            for _ in range(o.rounds):
                for ours in (False, True):
                    l.ours(ours)
                    for port in (19, 9):
                        got.setdefault((ours, port), []).append(l.measure(port, o.seconds))
        finally:
            e.terminate()
            e.wait(20)
    good = True
    for port, word in ((19, "sends"), (9, "receives")):
        ours, linux = got[True, port], got[False, port]
        ratio = statistics.median(ours) / max(statistics.median(linux), 0.001)
        good &= ratio >= 0.9
        print(f"{name:14} {word:9} ours {statistics.median(ours):7.2f}  Linux {statistics.median(linux):7.2f}  "
              f"ratio {ratio:5.2f}   ({', '.join(f'{x:.1f}' for x in ours)} | {', '.join(f'{x:.1f}' for x in linux)})",
              flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--kind", choices=("netem", "vm", "python"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--delay-ms", type=int, default=10)
    p.add_argument("--only", help="cases whose name contains this")
    p.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.peer:
        peer_main()
        return 0
    if o.kind is None or o.kind == "vm":
        wire_vm.image()  # before the namespace: it may want the network
    lab.enter_namespace()
    o.kind = o.kind or ("netem" if wire.has_netem() else "vm")
    print(f"{o.kind}, {o.delay_ms} ms each way, {SIZE >> 20} MiB or {o.seconds:.0f} s, Mbit/s")
    linux_server()
    results = [case(o, name, properties) for name, properties in CASES if not o.only or o.only in name]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
