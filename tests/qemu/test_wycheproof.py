# SPDX-License-Identifier: Apache-2.0
"""Proves: the cryptography gives Wycheproof's results where it really runs, on the bare kernel with its own page tables,
mem* and vector registers, on a processor with AES and AVX2 and on one of 2003 (make wycheproof-qemu)."""
import os
import re
import subprocess

import pytest

from run_vm import Machine, build_dir

X86 = os.path.join(build_dir(), "x86_64/wycheproof.elf")
ARM = os.path.join(build_dir(), "aarch64/wycheproof.Image")
VECTORS = os.path.join(build_dir(), "wycheproof/vectors.bin")
pytestmark = [pytest.mark.matrix,
              pytest.mark.skipif(not all(map(os.path.exists, (X86, ARM, VECTORS))), reason="make wycheproof-qemu")]


def judge(out):
    passed, failed = re.search(r"^(\d+) passed, (\d+) failed", out, re.M).groups()
    assert failed == "0" and int(passed) > 2000 and "FAILED" not in out, out[-2000:]


@pytest.mark.parametrize("cpu,told", [("max", "in hardware"), ("qemu64", "ChaCha20"), ("Haswell-noTSX", "in hardware")])
def test_x86_64(cpu, told):
    with Machine(kernel=X86, modules=[VECTORS], cpu=cpu, use="tcg") as m:
        m.expect("HKDF-SHA256: ", 300)
        m.wait_end(100)
        assert told in m.output()
        judge(m.output())


def test_aarch64():
    out = subprocess.run(["qemu-system-aarch64", "-M", "virt", "-cpu", "max", "-m", "256", "-display", "none", "-nic", "none",
                          "-serial", "stdio", "-no-reboot", "-kernel", ARM, "-initrd", VECTORS], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, timeout=400).stdout.decode("latin-1").replace("\r", "")
    judge(out)
