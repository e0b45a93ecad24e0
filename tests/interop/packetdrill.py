#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""packetdrill's scripts (google/packetdrill, built in DIR/gtests/net/packetdrill) against our TCP by --so_filename, their
expectations unchanged. What scripts do to Linux (sysctl, ip, ...) are commands that do nothing here. Scripts that look into
tcp_info ask the kernel for it, not the stack under test: they cannot run and are counted apart.
  tests/interop/packetdrill.py DIR [PATTERN...]      prints a line a script; exit code 0 when all of docs/conformance.md's
                                                     list passes and no other script does"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLAIMED = ("close slow_start sack fast_retransmit limited_transmit shutdown ts_recent mss fast_recovery cubic cwnd_moderation "
           "user_timeout validate").split()
STUBS = ("ip", "sysctl", "ethtool", "tc", "nstat", "sleep")


def build(suite, out):
    sources = sorted(os.path.join(ROOT, "src", d, f) for d in ("base", "net", "loop") for f in os.listdir(f"{ROOT}/src/{d}")
                     if f.endswith(".c") and not re.search(r"(_test|_fuzz|_host)\.c$|^fiber\.c$", f))
    subprocess.run(["clang-19", "-std=gnu2x", f"-I{ROOT}/src", f"-I{suite}", "-g", "-O1", "-fPIC", "-shared", "-w",
                    "-D_GNU_SOURCE", '-DURMQTT_VERSION="0"', f"{ROOT}/tests/interop/packetdrill_so.c",
                    f"{ROOT}/tests/unit_plat.c", *sources, "-o", out], check=True)


def run(suite, so, script, path):
    try:
        p = subprocess.run([os.path.join(suite, "packetdrill"), "--local_ip=192.168.0.1", "--so_flags=192.168.0.1",
                            f"--so_filename={so}", os.path.basename(script)], cwd=os.path.dirname(script), timeout=30,
                           env={**os.environ, "PATH": path}, capture_output=True, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return "does not end"
    return None if p.returncode == 0 else " ".join((p.stdout + p.stderr).split())[:240] or "ended with an error"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    net = os.path.join(os.path.abspath(sys.argv[1]), "gtests/net")
    suite, patterns = os.path.join(net, "packetdrill"), sys.argv[2:]
    passes = set(re.findall(r"^- `(\S+\.pkt)`", open(f"{ROOT}/docs/conformance.md").read(), re.M))
    count, surprises = {"passed": 0, "failed": 0, "not to be run": 0}, []
    with tempfile.TemporaryDirectory() as tmp:
        so, stubs = f"{tmp}/urmqtt.so", f"{tmp}/bin"
        build(suite, so)
        os.makedirs(stubs)
        for name in STUBS:
            with open(f"{stubs}/{name}", "w") as f:
                f.write("#!/bin/sh\nexit 0\n")
            os.chmod(f"{stubs}/{name}", 0o755)
        for folder in CLAIMED:
            for name in sorted(os.listdir(f"{net}/tcp/{folder}")):
                script = f"{folder}/{name}"
                if not name.endswith(".pkt") or (patterns and not any(p in script for p in patterns)):
                    continue
                if re.search(r"%\{|tcpi_", open(f"{net}/tcp/{script}").read()):
                    count["not to be run"] += 1
                    continue
                why = run(suite, so, f"{net}/tcp/{script}", f"{stubs}:{os.environ['PATH']}")
                count["failed" if why else "passed"] += 1
                print(f"{'failed' if why else 'ok    '} {script}{': ' + why if why else ''}", flush=True)
                if (why is None) != (script in passes):
                    surprises.append(script)
    print(", ".join(f"{n} {k}" for k, n in count.items()) + (f"; not as docs/conformance.md says: {surprises}" if surprises else ""))
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
