#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The heavy test in full: 100 000 messages (95 % up to 1 KiB, 200 of 256 KiB, below 300 MB in all) from 200 clients over
mTLS at once, 3.1.1 and 5, QoS 0, 1 and 2, retained, wills; none lost, duplicated or reordered. Runs the hosted release
build (`--asan`: the sanitized one) in a namespace of its own; a short form is in test_broker.py. `--bad-wire`: through
lossy.py (2 % loss, 1 % duplicates, 5 % reordered, 0.5 % damaged, both ways).
Usage: load.py [--asan] [--plain] [--bad-wire] [--seeds N]"""
import argparse
import contextlib
import subprocess
import sys
import tempfile

import lab


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--asan", action="store_true")
    p.add_argument("--plain", action="store_true")
    p.add_argument("--bad-wire", action="store_true")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--clients", default="200")
    p.add_argument("--messages", default="100000")
    o = p.parse_args()
    lab.enter_namespace()
    lab.make_tap()
    failed = 0
    with tempfile.TemporaryDirectory() as pki:
        lab.make_pki(pki)
        for seed in range(1, o.seeds + 1):
            wire = lab.BadWire() if o.bad_wire else contextlib.nullcontext()
            with tempfile.TemporaryDirectory() as folder, wire:
                b = lab.Broker(folder, pki, memory=512, binary="asan" if o.asan else "hosted",
                               tap=lab.BadWire.tap if o.bad_wire else "tap0")
                command = [f"{lab.BUILD}/bench/mqttmix", "--host", lab.BROKER, "--clients", o.clients, "--messages",
                           o.messages, "--seed", str(seed), "--port", str(lab.PLAIN if o.plain else lab.TLS)]
                command += ["--wills", "0"] if o.bad_wire else []  # a lost RST is not repeated
                if not o.plain:
                    command += ["--cert", f"{pki}/client.pem", "--key", f"{pki}/client.key"]
                failed += subprocess.run(command).returncode != 0
                failed += b.stop() != 0
    print("load:", "held" if failed == 0 else "FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
