#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the kernel or the ISO in QEMU, in bounded time. A library for tests (class Machine) and a command:

  tests/qemu/run_vm.py --kernel build/x86_64/urmqtt.elf --forward 8883:8883
  tests/qemu/run_vm.py --iso build/urmqtt.iso --firmware uefi --medium disk --machine pc --seconds 60

As a command it shows the serial console and ends with the machine, with Ctrl-C, or after --seconds. KVM is used only
where a guest of ours has really booted with it (asked once, the answer is kept in build/qemu/accel); else TCG."""
import argparse
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QEMU = "qemu-system-x86_64"
QEMU_ARM = "qemu-system-aarch64"
AAVMF = "/usr/share/AAVMF/AAVMF_CODE.fd"
AAVMF_VARS = "/usr/share/AAVMF/AAVMF_VARS.fd"
OVMF = "/usr/share/OVMF/OVMF_CODE_4M.fd"
OVMF_VARS = "/usr/share/OVMF/OVMF_VARS_4M.fd"
KVM_CPU = "max,-arch-capabilities"


def build_dir():
    return os.path.join(ROOT, os.environ.get("B", "build"))


def accel(kernel=None):
    """'kvm' or 'tcg': kvm only when the self-test boots and ends well with it within 15 s."""
    kernel = kernel or os.path.join(build_dir(), "x86_64/urmqtt.elf")
    cache = os.path.join(build_dir(), "qemu/accel")
    if os.path.exists(cache):
        return open(cache).read().strip()
    answer = "tcg"
    if os.access("/dev/kvm", os.R_OK | os.W_OK) and os.path.exists(kernel):
        try:
            p = subprocess.run([QEMU, "-accel", "kvm", "-cpu", KVM_CPU, "-m", "256", "-M", "q35", "-display", "none", "-nic",
                                "none", "-serial", "stdio", "-no-reboot", "-kernel", kernel, "-append", "selftest"],
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=15)
            answer = "kvm" if b"selftest: ok" in p.stdout else "tcg"
        except subprocess.TimeoutExpired:
            pass
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    with open(cache, "w") as f:
        f.write(answer + "\n")
    return answer


class Machine:
    """One QEMU process. Use as a context manager; every wait has a timeout; leaving ends the process."""

    def __init__(self, kernel=None, iso=None, firmware="bios", machine=None, medium="cd", cpu=None, memory=256, append="",
                 modules=(), forwards=(), nic="none", extra=(), use=None, tap=None, extra_first=(), arch="x86_64"):
        """forwards: (host port, guest port) pairs over user networking. tap: "A.B.C.D/N" makes a network namespace
        (root only) with a TAP device of that address instead; commands run in it by in_namespace()."""
        self.dir = tempfile.mkdtemp(prefix="urmqtt-vm-")
        self.log = os.path.join(self.dir, "serial.log")
        open(self.log, "w").close()
        arm = arch == "aarch64"
        machine = machine or ("virt,gic-version=3" if arm else "q35")
        use = "tcg" if arm else use or accel()
        if cpu is None:
            cpu = KVM_CPU if use == "kvm" else "max"
        self.namespace = self._make_namespace(tap) if tap else None
        args = (["ip", "netns", "exec", self.namespace] if tap else []) + [QEMU_ARM if arm else QEMU, "-accel", use, "-cpu", cpu, "-M", machine, "-m", str(memory), "-display", "none", "-no-reboot",
                "-chardev", f"socket,id=ser,path={self.dir}/serial,server=on,wait=on",
                "-serial", "chardev:ser", "-monitor", f"unix:{self.dir}/monitor,server=on,wait=off"]
        args += list(extra_first)
        if firmware == "uefi":
            variables = os.path.join(self.dir, "vars.fd")
            shutil.copy(AAVMF_VARS if arm else OVMF_VARS, variables)
            args += ["-drive", f"if=pflash,format=raw,readonly=on,file={AAVMF if arm else OVMF}",
                     "-drive", f"if=pflash,format=raw,file={variables}"]
        if iso and medium == "cd" and arm:
            args += ["-device", "virtio-scsi-pci", "-drive", f"if=none,id=cd,media=cdrom,file={iso}",
                     "-device", "scsi-cd,drive=cd,bootindex=0"]
        elif iso and medium == "cd":
            args += ["-cdrom", iso, "-boot", "d"]
        elif iso:
            args += ["-drive", f"if=none,id=d,format=raw,snapshot=on,file={iso}",
                     "-device", "virtio-blk-pci,drive=d,bootindex=0"]
        if arm and iso:
            args += ["-device", "ramfb"]
        if kernel:
            args += ["-kernel", kernel, "-append", append]
            if modules:
                args += ["-initrd", ",".join(modules)]
        if tap:
            device = "virtio-net-pci" if nic == "none" else nic
            args += ["-netdev", "tap,id=n,ifname=t0,script=no,downscript=no", "-device", f"{device},netdev=n,romfile="]
        elif forwards:
            rules = "".join(f",hostfwd=tcp:127.0.0.1:{h}-:{g}" for h, g in forwards)
            device = "virtio-net-pci" if nic == "none" else nic
            args += ["-netdev", f"user,id=n{rules}", "-device", f"{device},netdev=n,romfile="]
        else:
            args += ["-nic", "none"]
        self.started = time.monotonic()
        self.process = subprocess.Popen(args + list(extra), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(os.path.join(self.dir, "stderr"), "wb"))
        self.monitor_socket = None
        # QEMU waits for this connection. What the machine says is written down here and not by QEMU's own `logfile`, which
        # repeats a byte whenever the socket is full for a moment.
        self.serial = self._connect("serial")
        self.listener = None
        if self.serial:
            self.listener = threading.Thread(target=self._listen, daemon=True)
            self.listener.start()

    def _make_namespace(self, address):
        name = os.path.basename(self.dir)[-15:]
        subprocess.run(["ip", "netns", "add", name], check=True)
        for command in ("ip link set lo up", "ip tuntap add dev t0 mode tap", f"ip addr add {address} dev t0", "ip link set t0 up"):
            subprocess.run(["ip", "netns", "exec", name] + command.split(), check=True)
        return name

    def in_namespace(self, command, timeout):
        """Runs a command beside the guest; returns the finished process with its output."""
        return subprocess.run(["ip", "netns", "exec", self.namespace] + command, capture_output=True, text=True, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        for s in (self.serial, self.monitor_socket):
            if s:
                s.close()
        if self.namespace:
            subprocess.run(["ip", "netns", "del", self.namespace], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def output(self):
        """What the serial port said so far, terminal control sequences removed."""
        with open(self.log, "rb") as f:
            text = f.read().decode("latin-1")
        return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|c)|\r", "", text)

    def stderr(self):
        with open(os.path.join(self.dir, "stderr"), "rb") as f:
            return f.read().decode("latin-1")

    def expect(self, text, timeout=60, start=0):
        """Waits until the serial output from `start` on contains `text`; returns the whole output."""
        end = time.monotonic() + timeout
        while True:
            gone = self.process.poll() is not None
            if gone and self.listener:
                self.listener.join(5)  # what it said last may still be on its way to the file
            output = self.output()
            if text in output[start:]:
                return output
            if gone or time.monotonic() > end:
                why = "the machine ended" if gone else f"{timeout} s passed"
                raise AssertionError(f"{why} without {text!r}; output:\n{output[-3000:]}\n{self.stderr()[-500:]}")
            time.sleep(0.05)

    def _connect(self, name):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)
        end = time.monotonic() + 10
        while True:
            try:
                s.connect(os.path.join(self.dir, name))
                return s
            except OSError:
                if self.process.poll() is not None:
                    return None  # it has ended already; expect() tells with what words
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def send(self, data):
        """Types bytes on the serial console."""
        self.serial.sendall(data)

    def _listen(self):
        self.serial.settimeout(None)
        with open(self.log, "ab", buffering=0) as log:
            try:
                while True:
                    data = self.serial.recv(65536)
                    if not data:
                        return
                    log.write(data)
            except OSError:
                pass

    def monitor(self, command):
        """One command of QEMU's monitor; returns its answer."""
        if not self.monitor_socket:
            self.monitor_socket = self._connect("monitor")
            self._prompt()
        self.monitor_socket.sendall(command.encode() + b"\n")
        return self._prompt()

    def _prompt(self):
        got = b""
        while b"(qemu) " not in got[-8:]:
            more = self.monitor_socket.recv(4096)
            if not more:
                break
            got += more
        return got.decode("latin-1")

    def screen(self):
        """The picture on the screen: (width, height, RGB bytes)."""
        path = os.path.join(self.dir, "screen.ppm")
        self.monitor(f"screendump {path}")
        end = time.monotonic() + 10
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.1)
        data = open(path, "rb").read()
        head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
        return int(head.group(1)), int(head.group(2)), data[head.end():]

    def wait_end(self, timeout=30):
        self.process.wait(timeout)
        return time.monotonic() - self.started

    def cpu_seconds(self):
        """CPU time of the QEMU process so far."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_png(path, width, height, rgb):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def disk_args(path):
    """What is flushed is in the file; what is not may be lost with QEMU."""
    return ["-drive", f"if=none,id=own,format=raw,cache=writeback,file={path}", "-device", "virtio-blk-pci,drive=own"] if path else []


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel")
    p.add_argument("--iso")
    p.add_argument("--firmware", choices=("bios", "uefi"), default="bios")
    p.add_argument("--arch", choices=("x86_64", "aarch64"), default="x86_64")
    p.add_argument("--machine")
    p.add_argument("--medium", choices=("cd", "disk"), default="cd")
    p.add_argument("--cpu")
    p.add_argument("--memory", type=int, default=512)
    p.add_argument("--append", default="")
    p.add_argument("--module", action="append", default=[], help="a file handed to the kernel (with --kernel)")
    p.add_argument("--forward", action="append", default=[], metavar="HOST:GUEST", help="TCP port of 127.0.0.1 to the guest")
    p.add_argument("--nic", default="none", help="QEMU device and its options instead of virtio-net-pci")
    p.add_argument("--pcap", help="write every frame of the machine's network to this file")
    p.add_argument("--disk", help="a file that is the machine's disk, written to")
    p.add_argument("--seconds", type=float, default=0, help="end after this time (0 = run on)")
    a = p.parse_args()
    if bool(a.kernel) == bool(a.iso):
        p.error("give --kernel or --iso")
    forwards = [tuple(int(n) for n in f.split(":")) for f in a.forward]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    end = time.monotonic() + a.seconds if a.seconds else None
    with Machine(kernel=a.kernel, iso=a.iso, arch=a.arch, firmware=a.firmware, machine=a.machine, medium=a.medium, cpu=a.cpu, memory=a.memory,
                 append=a.append, modules=a.module, forwards=forwards, nic=a.nic,
                 extra=(["-object", f"filter-dump,id=dump,netdev=n,file={a.pcap}"] if a.pcap else []) + disk_args(a.disk)) as m:
        at = 0
        try:
            while True:
                gone = m.process.poll() is not None
                with open(m.log, "rb") as f:
                    f.seek(at)
                    new = f.read()
                at += len(new)
                sys.stdout.write(new.decode("latin-1"))
                sys.stdout.flush()
                if gone or (end and time.monotonic() > end):
                    break
                time.sleep(0.05)
        except KeyboardInterrupt:
            pass
        if m.process.poll() not in (None, 0):
            sys.stderr.write(m.stderr())
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
