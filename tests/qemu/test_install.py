# SPDX-License-Identifier: Apache-2.0
"""The installer in QEMU. Proves: from the ISO's menu urMQTT goes onto a virtio-blk or a virtio-scsi disk, asked for by name
on serial port or keyboard; the disk alone then starts on SeaBIOS, OVMF and AAVMF and serves mTLS with the configuration
from its own area; an upgrade keeps it; a start from the medium beside an installed disk starts the installed one; what was
cut off in the middle says so; live mode leaves a disk as it is, bit by bit; an unattended installation wants the exact
serial number and an empty disk."""
import hashlib
import os
import re
import subprocess
import tempfile
import time

import pytest

from run_vm import Machine, ROOT, build_dir, write_png
from test_boot import KEYS, wait_lit

ISO = os.path.join(build_dir(), "urmqtt.iso")
STAMP = os.path.join(build_dir(), "tools/urmqtt-stamp")
PKI = os.path.join(build_dir(), "pki")
SIZE = 640 << 20
CONF = """listener 8883
cafile ca.crt
certfile server.crt
keyfile server.key
require_certificate true
use_identity_as_username true
"""


@pytest.fixture
def work():
    with tempfile.TemporaryDirectory(prefix="urmqtt-install-") as d:
        yield d


def stamped(work, more=""):
    folder = os.path.join(work, "conf")
    os.makedirs(folder)
    with open(os.path.join(folder, "urmqtt.conf"), "w") as f:
        f.write(CONF + more)
    for name in ("ca.crt", "server.crt", "server.key"):
        subprocess.run(["cp", os.path.join(PKI, name), folder], check=True)
    iso = os.path.join(work, "stamped.iso")
    subprocess.run([STAMP, ISO, folder, "-o", iso], check=True, capture_output=True)
    return iso


def new_disk(work, name="disk.raw", size=SIZE):
    path = os.path.join(work, name)
    with open(path, "wb") as f:
        f.truncate(size)
    return path


def drive(path, scsi=False, serial="SN-0042", first=False, more=""):
    order = ",bootindex=0" if first else ""
    if scsi:
        device = ["-device", "virtio-scsi-pci,id=hba", "-device", f"scsi-hd,drive=disk,serial={serial}{order}"]
    else:
        device = ["-device", f"virtio-blk-pci,drive=disk,serial={serial}{order}"]
    return ["-drive", f"if=none,id=disk,format=raw,file={path}{more}"] + device


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(f.read()).hexdigest()


def choose_install(m, down=1):
    m.expect("Diagnostics (what", 90)
    for _ in range(down):
        m.send(b"\x1b[B")
        time.sleep(0.4)
    m.send(b"\r")


def answer(m, text, keyboard=False):
    if not keyboard:
        m.send(text.encode() + b"\r")
        return
    for c in text + "\n":
        m.monitor("sendkey " + KEYS.get(c, c) + " 20")
        time.sleep(0.05)


def install(iso, disk, scsi=False, keyboard=False, **how):
    name = "blk0" if not scsi else "scsi1.0.0" if how.get("arch") == "aarch64" else "scsi0.0.0"  # the CD is the first there
    with Machine(iso=iso, extra=drive(disk, scsi), **how) as m:
        choose_install(m)
        out = m.expect("nothing to stop.", 90)
        assert f"{name}" in out and "640 MiB" in out and "serial SN-0042" in out and ": empty" in out
        answer(m, "nonsense")
        m.expect("There is no disk of that name.", 20)
        answer(m, name, keyboard)
        out = m.expect("The machine is turned off.", 240)
        assert "everything was read back" in out
        m.wait_end(60)
    return out


def publish(port):
    """A real mTLS publish that comes back."""
    base = ["-h", "127.0.0.1", "-p", str(port), "--cafile", f"{PKI}/ca.crt", "--cert", f"{PKI}/client.crt", "--key",
            f"{PKI}/client.key", "--insecure", "-V", "5", "-t", "greeting"]
    subprocess.run(["mosquitto_pub"] + base + ["-r", "-q", "1", "-m", "hello"], check=True, timeout=60)
    got = subprocess.run(["mosquitto_sub"] + base + ["-C", "1", "-W", "30"], check=True, timeout=60, capture_output=True)
    assert got.stdout.strip() == b"hello"


PORTS = iter(range(24100, 24200))


def serves(disk, scsi=False, picture=None, **how):
    port = next(PORTS)
    with Machine(extra=drive(disk, scsi, first=True), forwards=[(port, 8883)], **how) as m:
        out = m.expect("ready: mqtts", 150)
        assert "configuration: the disk " in out
        publish(port)
        if picture:
            assert wait_lit(m, 100, 20), "no text on the screen"
            write_png(os.path.join(build_dir(), f"qemu/installed-{picture}.png"), *m.screen())
    return out


def test_install_and_start(work):
    iso = stamped(work)
    disk = new_disk(work)
    install(iso, disk)
    serves(disk, picture="bios")


@pytest.mark.parametrize("firmware,arch,scsi", [
    pytest.param("bios", "x86_64", True, marks=pytest.mark.matrix), ("uefi", "x86_64", False),
    pytest.param("uefi", "x86_64", True, marks=pytest.mark.matrix), ("uefi", "aarch64", True),
    pytest.param("uefi", "aarch64", False, marks=pytest.mark.matrix)])
def test_install_from_each_firmware(work, firmware, arch, scsi):
    """Installed under one firmware, on one kind of disk; started under it, on the other kind too."""
    iso = stamped(work)
    disk = new_disk(work)
    how = {"firmware": firmware, "arch": arch}
    install(iso, disk, scsi, keyboard=arch == "x86_64" and scsi, **how)
    screen = {"extra_first": ["-device", "ramfb"]} if arch == "aarch64" else {}
    serves(disk, scsi, picture=f"{firmware}-{arch}", **how, **screen)
    serves(disk, not scsi, **how)


def test_one_disk_starts_everywhere(work):
    """Installed under BIOS, the same disk starts under UEFI on both architectures."""
    disk = new_disk(work)
    install(stamped(work), disk)
    serves(disk, firmware="uefi")
    serves(disk, firmware="uefi", arch="aarch64")


def test_refusals_and_upgrade(work):
    """Somebody else's disk wants its name twice; one that is too small or read-only is refused; ours can be upgraded, and
    what the upgrade changed is the other kernel's place and the block that names it."""
    iso = stamped(work)
    disk = new_disk(work)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    small, small2 = (new_disk(work, name, 300 << 20) for name in ("small.raw", "small2.raw"))
    more = ["-drive", f"if=none,id=small,format=raw,file={small}", "-device", "virtio-blk-pci,drive=small",
            "-drive", f"if=none,id=ro,format=raw,file={small2},readonly=on", "-device", "virtio-blk-pci,drive=ro"]
    before = digest(disk)
    with Machine(iso=iso, extra=drive(disk) + more) as m:
        choose_install(m)
        out = m.expect("nothing to stop.", 90)
        assert "something without a partition table" in out and "read-only" in out
        answer(m, "blk0")
        m.expect("EVERYTHING ON IT WILL BE LOST", 20)
        answer(m, "blk1")
        m.expect("Nothing was written.", 20)
        answer(m, "blk2")
        m.expect("blk2 is read-only. Nothing was written.", 20)
        assert digest(disk) == before
        answer(m, "blk1")
        m.expect("the disk is too small: 512 MiB are needed. Nothing was written", 20)
    with Machine(iso=iso, extra=drive(disk)) as m:
        choose_install(m)
        m.expect("nothing to stop.", 90)
        answer(m, "blk0")
        m.expect("EVERYTHING ON IT WILL BE LOST", 20)
        answer(m, "blk0")
        m.expect("The machine is turned off.", 240)
        m.wait_end(60)
    subprocess.run(["cp", "--sparse=always", disk, disk + ".old"], check=True)
    with Machine(iso=ISO, extra=drive(disk)) as m:  # no configuration in this one: the disk's stays
        choose_install(m, down=2)  # the installed one stands first
        out = m.expect("nothing to stop.", 90)
        assert ": urMQTT 0." in out
        answer(m, "blk0")
        m.expect("type: upgrade", 20)
        answer(m, "upgrade")
        out = m.expect("The machine is turned off.", 240)
        assert "Configuration and data are as they were." in out
        m.wait_end(60)
    changed = subprocess.run(["cmp", "-l", disk, disk + ".old"], capture_output=True).stdout.splitlines()
    assert len(changed) == 1, "the same kernels: only the letter of the slot differs"
    serves(disk)


def test_medium_beside_an_installed_disk(work):
    """The medium first in the order of starting: GRUB goes on to the installed one. Where GRUB is told not to, the kernel
    says where it is and stops; only `live` chosen by hand runs, and writes nothing."""
    iso = stamped(work)
    disk = new_disk(work)
    install(iso, disk)
    port = next(PORTS)
    with Machine(iso=iso, extra=drive(disk), forwards=[(port, 8883)]) as m:
        out = m.expect("ready: mqtts", 120)
        assert "installed on a disk of this machine" in out and "configuration: the disk blk0" in out
    before = digest(disk)
    kernel = os.path.join(build_dir(), "x86_64/urmqtt.elf")
    with Machine(kernel=kernel, append="medium=iso", extra=drive(disk)) as m:
        out = m.expect("Stopped.", 60)
        assert "urMQTT is installed on this machine" in out and "blk0" in out and "serial SN-0042" in out
    with Machine(iso=iso, extra=drive(disk), forwards=[(port, 8883)]) as m:
        choose_install(m, down=1)
        m.expect("ready: mqtts", 120)
        publish(port)
        m.monitor("system_powerdown")
        m.wait_end(60)
    assert digest(disk) == before


def test_live_writes_nothing(work):
    iso = stamped(work)
    disk = new_disk(work)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    before = digest(disk)
    port = next(PORTS)
    with Machine(iso=iso, extra=drive(disk), forwards=[(port, 8883)]) as m:
        m.expect("ready: mqtts", 120)
        publish(port)
        m.monitor("system_powerdown")
        m.wait_end(60)
    assert digest(disk) == before


def test_cut_off_in_the_middle(work):
    """The machine loses its power while it installs: BIOS says so; installing again works."""
    iso = stamped(work)
    disk = new_disk(work)
    slow = ",throttling.bps-write=400000"
    with Machine(iso=iso, extra=drive(disk, more=slow)) as m:
        choose_install(m)
        m.expect("nothing to stop.", 90)
        answer(m, "blk0")
        m.expect("Installing on blk0", 20)
        time.sleep(6)
        assert "Done" not in m.output()
        m.process.kill()
        m.process.wait(10)
    with Machine(extra=drive(disk, first=True)) as m:
        m.expect("the installation on this disk was not finished", 60)
    with Machine(iso=iso, extra=drive(disk)) as m:
        choose_install(m)
        out = m.expect("nothing to stop.", 90)
        assert "an installation of urMQTT that was not finished" in out
        answer(m, "blk0")
        m.expect("The machine is turned off.", 240)
        m.wait_end(60)
    serves(disk)


def test_unattended(work):
    """`install auto`: the wrong serial number writes nothing; the right one installs and turns the machine off; the next
    start, medium still there, is the installed one's."""
    iso = stamped(work, "install auto SN-0042\n")
    disk = new_disk(work)
    before = digest(disk)
    with Machine(iso=iso, extra=drive(disk, serial="SN-004")) as m:
        out = m.expect("Stopped.", 120)
        assert 'no disk has the serial number "SN-0042"' in out and "serial SN-004:" in out
    assert digest(disk) == before
    foreign = new_disk(work, "foreign.raw")
    subprocess.run(["mkfs.ext4", "-q", foreign], check=True)
    with Machine(iso=iso, extra=drive(foreign)) as m:
        m.expect("the disk is not empty. Nothing was written", 120)
    with Machine(iso=iso, extra=drive(disk)) as m:
        m.expect("The machine is turned off.", 300)
        m.wait_end(60)
    port = next(PORTS)
    with Machine(iso=iso, extra=drive(disk), forwards=[(port, 8883)]) as m:
        m.expect("ready: mqtts", 120)
        publish(port)
