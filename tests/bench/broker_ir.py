#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""broker_ir.py BINARY...: instructions a delivery in the broker alone (valgrind counts them, so that a busy machine does not
matter), for each case of broker_bench, without and (second line) with an acl_file of 5 000 users; several binaries side
by side."""
import os
import re
import subprocess
import sys
import tempfile

CASES = ["v%d QoS %d 1 to %3d" % (4 + i // 4, i // 2 % 2, 1 if i % 2 == 0 else 100) for i in range(8)]
ROUNDS = 7


def count(binary, deliveries, case):
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, str(deliveries), str(case)],
                         capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def stripped(binary, folder):
    """valgrind cannot read the reference compiler's debugging information."""
    out = os.path.join(folder, "%d" % len(os.listdir(folder)))
    subprocess.run(["objcopy", "--strip-debug", binary, out], check=True)
    return out


folder = tempfile.TemporaryDirectory()
binaries = [stripped(b, folder.name) for b in sys.argv[1:]]
few, many = 3200, 9600
for i, name in [x for i, name in enumerate(CASES) for x in ((i, name), (i + 10, " with rules      "))]:
    each = [(count(b, many, i) - count(b, few, i)) / ((many - few) * ROUNDS) for b in binaries]
    print(name, " ".join("%7.1f" % x for x in each), flush=True)
