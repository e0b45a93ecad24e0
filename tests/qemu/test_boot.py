# SPDX-License-Identifier: Apache-2.0
"""Boots the real images under real firmware. Proves: PVH and the ISO by BIOS and UEFI, as CD and as disk, on q35 and pc
reach the program; the menu is there on serial; text stands on the screen; ten boots land at ten places; each provoked
fault ends in its own crash text without an address in it; an idle kernel uses next to no host CPU; a wrong battery
clock serves and says so."""
import os
import re
import subprocess
import time

import pytest

from diagnose import document
from run_vm import Machine, ROOT, build_dir, write_png

KERNEL = os.path.join(build_dir(), "x86_64/urmqtt.elf")
ISO = os.path.join(build_dir(), "urmqtt.iso")
BANNER = "urMQTT 0."


def selftest(**how):
    with Machine(kernel=KERNEL, append="selftest", **how) as m:
        out = m.expect("selftest: ok", 60)
        m.wait_end(20)
    assert "FAILED" not in out
    return out


@pytest.mark.parametrize("cpu", ["qemu64", "max"])
@pytest.mark.parametrize("machine", ["q35", "pc"])
def test_pvh(machine, cpu):
    out = selftest(machine=machine, cpu=cpu, use="tcg")
    assert "started by PVH" in out
    assert ("entropy: good" if cpu == "max" else "entropy: WEAK") in out


def qemu_major():
    told = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"version (\d+)", told).group(1))


@pytest.mark.skipif(qemu_major() < 9, reason="QEMU's emulation has x2APIC since version 9 (Debian 13)")
def test_x2apic():
    assert "interrupts: x2APIC" in selftest(cpu="max,+x2apic", use="tcg")


def test_ten_places():
    places = {re.search(r"kaslr: (0x[0-9a-f]+)", selftest()).group(1) for _ in range(10)}
    assert len(places) == 10
    assert all(int(p, 16) >= 0xffff800000000000 and int(p, 16) % 4096 == 0 for p in places)
    slots = {int(p, 16) >> 39 for p in places}
    offsets = {int(p, 16) & (2 ** 39 - 1) for p in places}
    assert len(slots) >= 5 and len(offsets) == 10


FAULTS = {
    "assert": "E001", "canary": "E002", "stack": "E034", "null": "E035", "write-text": "E035", "run-data": "E035",
    "cfi": "E031",
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_crash_text(fault):
    with Machine(kernel=KERNEL, append=f"selftest selftest-{fault}") as m:
        out = m.expect("restarts in 60 seconds", 60)
        told = out[out.index("urMQTT has stopped"):]
        assert f"urMQTT has stopped: {FAULTS[fault]}\n" in told
        assert "Build " in told
        assert not re.search(r"0x[0-9a-f]{4}|[0-9a-f]{16}|rip|rsp", told, re.I), told
        time.sleep(1)
        assert m.process.poll() is None, "it must stay readable"


def test_crash_stops_on_read_only_media():
    with Machine(kernel=KERNEL, append="medium=iso selftest selftest-assert") as m:
        m.expect("stays as it is", 60)


KEYS = {" ": "spc", "\n": "ret", "-": "minus", "/": "slash", ".": "dot", "!": "shift-1", ":": "shift-semicolon"}


@pytest.mark.parametrize("machine", ["q35", "pc"])
def test_keyboard_and_serial_input(machine):
    """What is typed on the PS/2 keyboard arrives, with shift, at once (its interrupt ends the halt); serial bytes as well."""
    with Machine(kernel=KERNEL, append="selftest selftest-type", machine=machine) as m:
        m.expect("selftest: type", 60)
        for c in "Hello, urMQTT-1 a/b!\n".replace(",", "."):
            m.monitor("sendkey " + KEYS.get(c, f"shift-{c.lower()}" if c.isupper() else c) + " 20")
            time.sleep(0.05)
        m.expect("typed: Hello. urMQTT-1 a/b!\n", 10)
        m.send(b"by serial\r")
        m.expect("typed: by serial\n", 10)
        m.send(b"end\r")
        m.expect("selftest: ok", 20)
        m.wait_end(20)


@pytest.mark.matrix
def test_restarts_after_a_minute():
    """A crash stays readable for 60 s, then the machine restarts: -no-reboot makes QEMU end instead."""
    with Machine(kernel=KERNEL, append="selftest selftest-assert") as m:
        m.expect("restarts in 60 seconds", 60)
        began = time.monotonic()
        m.wait_end(90)
        assert 55 < time.monotonic() - began < 75 and m.process.returncode == 0


def lit(picture):
    """How many 8x16 cells of the picture are neither empty nor full: text, roughly."""
    width, height, rgb = picture
    count = 0
    for row in range(height // 16):
        for col in range(width // 8):
            on = 0
            for y in range(row * 16, row * 16 + 16, 2):
                at = (y * width + col * 8) * 3
                on += sum(1 for x in range(0, 24, 3) if rgb[at + x] > 64)
            count += 0 < on < 64
    return count


def wait_lit(m, cells, timeout=10):
    end = time.monotonic() + timeout
    while lit(m.screen()) < cells:
        if time.monotonic() > end:
            return False
        time.sleep(0.3)
    return True


def boot_iso(firmware, machine, medium):
    with Machine(iso=ISO, firmware=firmware, machine=machine, medium=medium, memory=256) as m:
        menu = m.expect("Diagnostics (what", 60)
        assert "urMQTT (live" in menu
        assert "Install to this machine's disk" in menu and "Diagnostics" in menu
        assert wait_lit(m, 40), "the menu is not on the screen"
        m.send(b"\r")
        out = m.expect(BANNER, 60)
        out = m.expect("console: ", 60)
        assert ("multiboot2, UEFI" if firmware == "uefi" else "multiboot2, BIOS") in out
        lines = wait_lit(m, 200)
        picture = m.screen()
        write_png(os.path.join(build_dir(), f"qemu/iso-{firmware}-{machine}-{medium}.png"), *picture)
        assert lines, "no text on the screen"


CASES = [(f, mc, md) for f in ("bios", "uefi") for mc in ("q35", "pc") for md in ("cd", "disk")]
SHORT = [("bios", "q35", "cd"), ("bios", "pc", "disk"), ("uefi", "q35", "disk")]


@pytest.mark.parametrize("firmware,machine,medium", [
    pytest.param(*c, marks=[] if c in SHORT else [pytest.mark.matrix]) for c in CASES])
def test_iso(firmware, machine, medium):
    boot_iso(firmware, machine, medium)


def test_iso_starts_by_itself():
    """Nobody presses a key: after 5 s the first entry starts."""
    with Machine(iso=ISO) as m:
        m.expect(BANNER, 60)


def choose(m, down):
    m.expect("Diagnostics (what", 60)
    for _ in range(down):
        m.send(b"\x1b[B")
        time.sleep(0.3)
    m.send(b"\r")


def test_diagnostics():
    with Machine(iso=ISO) as m:
        choose(m, 2)
        m.expect("Diagnostics end here", 240)
        doc = document(m.output())
    assert {"name": "config.slot", "bytes": 1048576} in doc["start"]["modules"]
    assert doc["start"]["path"] == "multiboot2, BIOS" and "aes" in doc["cpu"]["features"]


def test_install_without_a_disk():
    with Machine(iso=ISO) as m:
        choose(m, 1)
        out = m.expect("Stopped.", 60)
        assert "none. Disks are found behind virtio-blk and virtio-scsi." in out


def test_idle_uses_no_cpu():
    """A crash screen waits 60 s by halting: the same halt as an idle broker's."""
    with Machine(kernel=KERNEL, append="selftest selftest-assert") as m:
        m.expect("restarts in 60 seconds", 60)
        time.sleep(1)
        before = m.cpu_seconds()
        time.sleep(5)
        assert m.cpu_seconds() - before < 0.25


@pytest.mark.parametrize("date", ["2000-01-01T00:00:00", "2099-01-01T00:00:00"])
def test_wrong_clock_serves_and_says_so(date):
    out = selftest(extra=["-rtc", f"base={date}"])
    assert "not to be trusted" in out and "cannot be right" in out


def test_right_clock():
    assert "(battery clock)" in selftest()


def test_little_memory():
    selftest(memory=32)
    with Machine(kernel=KERNEL, append="selftest", memory=16) as m:
        m.expect("too little memory", 30)


@pytest.mark.matrix
def test_much_memory():
    assert "6143 MiB of RAM" in selftest(memory=6144)
