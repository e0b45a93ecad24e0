#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A wire that loses, doubles, delays, reorders or narrows: two network devices, what goes into one comes out of the other.

    with wire.Wire(loss=2, duplicate=1, reorder=25, delay_ms=1) as w:    # per cent and milliseconds, each way
        ... w.left and w.right are plain network devices without addresses: bridge them, or move one into a namespace ...
        w.set(rate_mbit=10, delay_ms=20)                                 # other properties, the same devices
        print(w.stats())

Three kinds, `kind` or the best there is: "netem" (this kernel's sch_netem on a veth pair), "vm" (Debian's kernel in QEMU with
a netem on each side, wire_vm.py; reordering and timing are Linux's, about 10 000 frames a second), "python" (lossy.py:
a fixed seed and damaged frames as well, but no rate). Needs root in the caller's network namespace.
As a command: wire.py [KIND] [NAME=NUMBER...] builds a wire in a namespace of its own, measures it and ends."""
import os
import select
import socket
import struct
import subprocess
import sys
import time

import wire_vm

HERE = os.path.dirname(os.path.abspath(__file__))
PRIVATE = 0x88b5  # the EtherType for experiments (IEEE 802)
LIMIT = 20000  # frames that may wait in a netem; its default of 1000 would lose more than was asked for
NAMES = ("loss", "duplicate", "reorder", "damage", "delay_ms", "jitter_ms", "rate_mbit")


def run(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True)


def netem_words(loss=0, duplicate=0, reorder=0, damage=0, delay_ms=0, jitter_ms=0, rate_mbit=0):
    """The parameters as `tc` wants them. Reordered frames are those that do not wait, so a delay is needed for them; they
    come in bursts (correlation 50 %)."""
    delay_ms = delay_ms or (1 if reorder else 0)
    words = [f"limit {LIMIT}"]
    words += [f"delay {delay_ms}ms" + (f" {jitter_ms}ms" if jitter_ms else "")] if delay_ms else []
    words += [f"loss {loss}%"] if loss else []
    words += [f"duplicate {duplicate}%"] if duplicate else []
    words += [f"reorder {reorder}% 50%"] if reorder else []
    words += [f"corrupt {damage}%"] if damage else []
    words += [f"rate {rate_mbit}mbit"] if rate_mbit else []
    return " ".join(words)


def has_netem():
    """Whether this kernel takes a netem: asked on a device of our own."""
    try:
        run("ip link add wireprobe type dummy || ip link add wireprobe type veth")
        ok = run("tc qdisc add dev wireprobe root netem delay 1ms", check=False).returncode == 0
        return ok
    except subprocess.CalledProcessError:
        return False
    finally:
        run("ip link del wireprobe", check=False)


class Wire:
    left, right = "wire0", "wire1"

    def __init__(self, kind=None, seed=1, **properties):
        self.kind = kind or ("netem" if has_netem() else "vm")
        self.seed, self.properties, self.vm, self.p = seed, properties, None, None
        assert self.kind in ("netem", "vm", "python") and set(properties) <= set(NAMES), (kind, properties)

    def __enter__(self):
        if self.kind == "netem":
            run(f"ip link add {self.left} type veth peer name {self.right}")
        else:
            for name in (self.left, self.right):
                run(f"ip tuntap add dev {name} mode tap")
        for name in (self.left, self.right):
            run(f"ip link set {name} txqueuelen {LIMIT} up")
        try:
            if self.kind == "vm":
                self.vm = wire_vm.Vm(self.left, self.right)
            self.set(**self.properties)
        except BaseException:
            self.__exit__()
            raise
        return self

    def set(self, **properties):
        """Other properties from now on; what is not named is perfect."""
        if self.kind == "vm":
            self.vm.tell("netem " + netem_words(**properties))
        elif self.kind == "netem":
            for name in (self.left, self.right):
                run(f"tc qdisc replace dev {name} root netem {netem_words(**properties)}")
        else:
            self._stop()
            assert "rate_mbit" not in properties and "jitter_ms" not in properties, "only netem has a rate and jitter"
            values = [str(int(properties.get(n, 0) * 10)) for n in ("loss", "duplicate", "reorder", "damage")]
            self.p = subprocess.Popen([sys.executable, os.path.join(HERE, "lossy.py"), self.left, self.right, *values,
                                       str(properties.get("delay_ms", 1)), str(self.seed)], stdout=subprocess.PIPE)
            assert self.p.stdout.readline() == b"up\n", "lossy.py did not start"

    def stats(self):
        """What the two netems counted: text, with `dropped` and `overlimits`."""
        if self.kind == "vm":
            return self.vm.tell("stats")
        return "".join(run(f"tc -s qdisc show dev {n}", False).stdout for n in (self.left, self.right) if self.kind == "netem")

    def _stop(self):
        if self.p:
            self.p.terminate()
            self.p.wait(5)
            self.p.stdout.close()
            self.p = None

    def __exit__(self, *_):
        self._stop()
        if self.vm:
            self.vm.stop()
        for name in (self.left, self.right):
            run(f"ip link del {name}", check=False)


def measure(w, frames=2000, size=200, gap_s=0.001):
    """Sends numbered frames of a private EtherType from left to right and the other way: what came of it, as text."""
    said = []
    for one, other in ((w.left, w.right), (w.right, w.left)):
        a, b = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PRIVATE)) for _ in "ab")
        a.bind((one, PRIVATE))
        b.bind((other, PRIVATE))
        sent, got, n = [], [], 0
        while n < frames or select.select([b], [], [], 0.5)[0]:
            if n < frames:
                sent.append(time.monotonic())
                a.send(b"\xff" * 6 + b"\2\0\0\0\0\1" + struct.pack(">HI", PRIVATE, n) + bytes(size))
                n += 1
            end = time.monotonic() + gap_s
            while select.select([b], [], [], max(0, end - time.monotonic()))[0]:
                number = struct.unpack(">I", b.recv(2048)[14:18])[0]
                if number < frames:
                    got.append((number, time.monotonic() - sent[number]))
        order = [number for number, _ in got]
        late = sorted(t for _, t in got) or [0.0]
        lost, doubled = frames - len(set(order)), len(order) - len(set(order))
        overtaken = sum(1 for x, y in zip(order, order[1:]) if y < x)
        said.append(f"{one} to {other}: {frames} sent, {lost} lost, {doubled} doubled, {overtaken} overtaken, "
                    f"{late[len(late) // 2] * 1000:.2f} ms in the median, {late[-1] * 1000:.2f} at most")
    return "\n".join(said)


def main():
    import lab
    wire_vm.image()
    kind = sys.argv[1] if len(sys.argv) > 1 and "=" not in sys.argv[1] else None
    properties = {k: float(v) for k, v in (a.split("=") for a in sys.argv[1:] if "=" in a)}
    lab.enter_namespace()
    with Wire(kind, **properties) as w:
        print(f"{w.kind}: {netem_words(**properties)}\n{measure(w)}\n{w.stats()}")


if __name__ == "__main__":
    main()
