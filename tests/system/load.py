#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The heavy test in full: 100 000 messages (95 % up to 1 KiB, 200 of 256 KiB, below 300 MB in all) from 200 clients over
mTLS at once, 3.1.1 and 5, QoS 0, 1 and 2, retained, wills; none lost, duplicated or reordered. Runs the hosted release
build (`--asan`: the sanitized one) in a namespace of its own; a short form is in test_broker.py.
`--netem`: through Linux's netem, each way 2 % loss, 1 % duplicates, 25 % reordered, 1 ms (wire.py; this kernel's, or that
of a machine made for it). `--bad-wire`: through lossy.py (2 % loss, 1 % duplicates, 5 % reordered, 0.5 % damaged, each way).
On both a client's death may go unseen (its RST may be lost), so those with a will have a keep-alive of 10 s.
Usage: load.py [--asan] [--plain] [--netem | --bad-wire] [--first N] [--seeds N] [--clients N] [--messages N]"""
import argparse
import contextlib
import subprocess
import sys
import tempfile

import lab
import wire
import wire_vm

NETEM = {"loss": 2, "duplicate": 1, "reorder": 25, "delay_ms": 1}


def make_wire(o, seed):
    if o.netem:
        return lab.BadWire(kind=o.kind, **NETEM)
    return lab.BadWire(seed=seed) if o.bad_wire else contextlib.nullcontext()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--asan", action="store_true")
    p.add_argument("--plain", action="store_true")
    p.add_argument("--bad-wire", action="store_true")
    p.add_argument("--netem", action="store_true")
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--clients", default="200")
    p.add_argument("--messages", default="100000")
    o = p.parse_args()
    bad = o.netem or o.bad_wire
    if o.netem:
        wire_vm.image()  # before the namespace: it may want the network
    lab.enter_namespace()
    o.kind = "netem" if o.netem and wire.has_netem() else "vm"
    lab.make_tap()
    failed = 0
    with tempfile.TemporaryDirectory() as pki:
        lab.make_pki(pki)
        for seed in range(o.first, o.first + o.seeds):
            with tempfile.TemporaryDirectory() as folder, make_wire(o, seed) as w:
                b = lab.Broker(folder, pki, memory=512, binary="asan" if o.asan else "hosted", seconds=3600,
                               tap=lab.BadWire.tap if bad else "tap0")
                command = [f"{lab.BUILD}/bench/mqttmix", "--host", lab.BROKER, "--clients", o.clients, "--messages",
                           o.messages, "--seed", str(seed), "--port", str(lab.PLAIN if o.plain else lab.TLS)]
                command += ["--will-keep-alive", "10", "--timeout", "1800"] if bad else []
                if not o.plain:
                    command += ["--cert", f"{pki}/client.pem", "--key", f"{pki}/client.key"]
                failed += subprocess.run(command).returncode != 0
                if o.netem:
                    print(w.wire.stats(), flush=True)
                failed += b.stop() != 0
    print("load:", "held" if failed == 0 else "FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
