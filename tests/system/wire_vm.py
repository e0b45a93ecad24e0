#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Linux's netem for a machine whose own kernel lacks it: Debian's cloud kernel in QEMU with two network cards, a bridge
between them and a netem on each, fed by commands over its serial port. Made here, in build/wire: the kernel package and
busybox-static (apt-get download, once), the modules that are wanted, this machine's `tc` and `ip` with their libraries,
and an initramfs of them. No root file system, nothing installed. Run as a command it only makes the image."""
import glob
import lzma
import os
import re
import select
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(ROOT, os.environ.get("B", "build"), "wire")
MODULES = ("virtio_pci", "virtio_net", "bridge", "sch_netem")
# /bin/tc and /bin/ip by path: busybox would prefer its own small ones. Received frames must not be merged (gro_max_size; newer
# kernels have a second limit): a netem would drop, double or delay the merged ones as one.
INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -F /dev/ttyS0 -echo
for m in $(cat /modules/order); do insmod /modules/$m.ko || echo "wire: failed: $m"; done
/bin/ip link add b0 type bridge
for d in eth0 eth1; do /bin/ip link set $d master b0; /bin/ip link set $d txqueuelen 20000; /bin/ip link set $d up; done
/bin/ip link set b0 up
for d in eth0 eth1; do
  /bin/ip link set $d gro_max_size 1 || echo "wire: failed: gro"
  /bin/ip link set $d gro_ipv4_max_size 1 2>/dev/null
done
echo "wire: up"
while read -r what rest; do
  case $what in
  netem) for d in eth0 eth1; do /bin/tc qdisc replace dev $d root netem $rest || echo "wire: failed: $rest"; done ;;
  none) for d in eth0 eth1; do /bin/tc qdisc del dev $d root 2>/dev/null; done ;;
  stats) for d in eth0 eth1; do /bin/tc -s qdisc show dev $d; done ;;
  esac
  echo "wire: done"
done
"""


def cpio(entries):
    """An initramfs (newc): (name, mode, data) in order."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        raw = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + raw
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def unpack(package, into):
    """A Debian package of this machine's release, unpacked; nothing is installed."""
    os.makedirs(into, exist_ok=True)
    p = subprocess.run(["apt-get", "download", package], cwd=into, capture_output=True, text=True)
    if p.returncode != 0:
        raise SystemExit(f"wire: {package} cannot be downloaded (inside a namespace? call image() first): {p.stderr[-300:]}")
    deb = glob.glob(os.path.join(into, f"{package}_*.deb"))[0]
    subprocess.run(["dpkg-deb", "-x", deb, into], check=True)
    os.remove(deb)


def module(tree, name):
    """The bytes of a kernel module (Debian 13 compresses them) and the names of those it needs."""
    path = glob.glob(os.path.join(tree, "**", f"{name}.ko*"), recursive=True)
    assert path, f"the kernel package has no module {name}"
    data = open(path[0], "rb").read()
    data = lzma.decompress(data) if path[0].endswith(".xz") else data
    needs = re.search(rb"\0depends=([^\0]*)\0", data).group(1).decode()
    return data, [n.replace("-", "_") for n in needs.split(",") if n]


def modules(tree):
    """name -> bytes, each after those it needs."""
    found, waiting = {}, list(MODULES)
    while waiting:
        data, needs = module(tree, waiting[0])
        missing = [n for n in needs if n not in found]
        if missing:
            waiting = missing + waiting
        else:
            found[waiting.pop(0)] = data
    return found


def programs(*names):
    """This machine's dynamic programs and every library they name: path -> bytes."""
    out = {}
    for name in names:
        path = shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
        assert path, f"{name} is missing (Debian package iproute2)"
        out[f"bin/{name}"] = open(path, "rb").read()
        told = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", told):
            out[library.lstrip("/")] = open(library, "rb").read()
    return out


def image():
    """(kernel, initramfs), made when they are not there yet or older than this file. Wants the network the first time."""
    kernel, initrd = os.path.join(WORK, "vmlinuz"), os.path.join(WORK, "initrd")
    if os.path.exists(initrd) and os.path.getmtime(initrd) > os.path.getmtime(__file__):
        return kernel, initrd
    tree = os.path.join(WORK, "x")
    shutil.rmtree(tree, ignore_errors=True)
    told = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, check=True)
    unpack(re.search(r"Depends: (linux-image-\S+)", told.stdout).group(1), tree)
    unpack("busybox-static", tree)
    shutil.copy(glob.glob(f"{tree}/boot/vmlinuz-*")[0], kernel)
    files = {"init": INIT.encode(), **programs("tc", "ip")}
    busybox = [p for p in (f"{tree}/bin/busybox", f"{tree}/usr/bin/busybox") if os.path.exists(p)][0]
    files["bin/busybox"] = open(busybox, "rb").read()
    loaded = modules(tree)
    files["modules/order"] = "\n".join(loaded).encode()
    files.update({f"modules/{name}.ko": data for name, data in loaded.items()})
    folders = {"proc", "sys", "dev"}
    for name in files:
        parts = name.split("/")[:-1]
        folders |= {"/".join(parts[:n]) for n in range(1, len(parts) + 1)}
    entries = [(f, 0o040755, b"") for f in sorted(folders)] + [(n, 0o100755, d) for n, d in sorted(files.items())]
    entries += [(f"bin/{tool}", 0o120777, b"busybox") for tool in ("sh", "mount", "insmod", "stty", "cat")]
    with open(initrd, "wb") as f:
        f.write(cpio(entries))
    shutil.rmtree(tree)
    return kernel, initrd


class Vm:
    """The machine between two TAP devices that exist already, in the network namespace of the caller."""

    def __init__(self, left, right):
        kernel, initrd = image()
        command = ["qemu-system-x86_64", "-accel", "tcg", "-M", "q35", "-cpu", "max", "-m", "256", "-display", "none",
                   "-no-reboot", "-serial", "stdio", "-monitor", "none", "-nodefaults", "-kernel", kernel, "-initrd", initrd,
                   "-append", "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0"]
        for number, tap in enumerate((left, right)):  # frames as on a wire: whole checksums, no super-segments
            command += ["-netdev", f"tap,id=n{number},ifname={tap},script=no,downscript=no",
                        "-device", f"virtio-net-pci,netdev=n{number},romfile=,csum=off,gso=off,guest_csum=off,guest_tso4=off,"
                        "guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,"
                        "rx_queue_size=1024"]
        self.text = ""
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.expect("wire: up", 60)

    def expect(self, pattern, seconds):
        end = time.monotonic() + seconds
        while pattern not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.p.stdout], [], [], left)[0]:
                break
            data = os.read(self.p.stdout.fileno(), 65536)
            if not data:
                break
            self.text += data.decode(errors="replace").replace("\r", "")
        if pattern not in self.text or "wire: failed" in self.text:
            self.stop()
            raise AssertionError(f"the wire's machine did not say {pattern!r}: {self.text[-2000:]}")

    def tell(self, command):
        """One command of INIT; its output."""
        self.text = ""
        self.p.stdin.write(command.encode() + b"\n")
        self.p.stdin.flush()
        self.expect("wire: done", 20)
        return self.text.replace("wire: done", "").strip()

    def stop(self):
        if self.p.poll() is None:
            self.p.terminate()
        self.p.wait(10)


if __name__ == "__main__":
    print(*image())
    sys.exit(0)
