# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of a machine in QEMU, or of this host: prints the JSON document (checksum verified) or, with --text, what a
person sees. A library for tests as well.
  tests/qemu/diagnose.py [--arch x86_64|aarch64] [--disk FILE] [--hosted] [--text]"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys

from run_vm import Machine, build_dir

FRAME = re.compile(r"-----BEGIN URMQTT DIAGNOSTICS-----\r?\n(.*?)\r?\n-----END URMQTT DIAGNOSTICS sha256=([0-9a-f]{64})-----",
                   re.S)
KERNELS = {"x86_64": "x86_64/urmqtt.elf", "aarch64": "aarch64/Image"}


def document(text):
    """The document in what a console said. ValueError: none is there, or it was damaged on the way."""
    m = FRAME.search(text)
    if not m:
        raise ValueError("no diagnostics document:\n" + text[-2000:])
    if hashlib.sha256(m[1].encode()).hexdigest() != m[2]:
        raise ValueError("the document's checksum is wrong")
    return json.loads(m[1])


def machine(arch="x86_64", disks=(), words="", udp=None, **options):
    """disks: (file, device) pairs; the device's drive is `v0`, `v1`, ... udp: a port of this host that leads to UDP port 7."""
    forward = f",hostfwd=udp:127.0.0.1:{udp}-:7" if udp else ""
    extra = ["-netdev", "user,id=u" + forward, "-device", "virtio-net-pci,netdev=u,romfile="]
    for n, (path, device) in enumerate(disks):
        extra += ["-drive", f"if=none,id=v{n},format=raw,discard=unmap,file={path}", "-device", f"{device},drive=v{n}"]
    return Machine(kernel=os.path.join(build_dir(), KERNELS[arch]), arch=arch, append=f"diagnostics off {words}",
                   extra=extra, **options)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--arch", choices=list(KERNELS), default="x86_64")
    p.add_argument("--disk", help="image or block device; read only unless you type WIPE, which this command never does")
    p.add_argument("--hosted", action="store_true", help="this host, natively")
    p.add_argument("--text", action="store_true", help="as a person sees it")
    a = p.parse_args()
    if a.hosted:
        text = subprocess.run([os.path.join(build_dir(), "hosted/urmqtt"), "--diagnose"], check=True, capture_output=True,
                              text=True).stdout
    else:
        disks = [(a.disk, "virtio-blk-pci")] if a.disk else []
        with machine(a.arch, disks, "quick") as m:
            m.expect("Diagnostics end here", 240)
            text = m.output()
    print(text[text.index("-----END URMQTT"):].split("\n", 1)[1] if a.text else json.dumps(document(text), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
