# SPDX-License-Identifier: Apache-2.0
"""Configuration volumes. Proves: what stands on a volume labelled CIDATA or URMQTT is what a booted machine serves, however
the volume is attached (CD on IDE or AHCI, disk on virtio, USB stick with and without partitions) and whoever finds it (GRUB
by BIOS or UEFI, or our own drivers); it goes before a stamped slot; a volume that is not ours or damaged is named and the slot is used."""
import os
import random
import socket
import subprocess
import time

import pytest

from run_vm import Machine, build_dir

KERNEL = os.path.join(build_dir(), "x86_64/urmqtt.elf")
ISO = os.path.join(build_dir(), "urmqtt.iso")
ENV = dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin", MTOOLS_SKIP_CHECK="1")
PORT = 1890  # only the volume's configuration listens there


def sh(command):
    subprocess.run(["bash", "-ec", command], check=True, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    d = tmp_path_factory.mktemp("volumes")
    sh(f"""cd {d}; mkdir files slot other folder
    printf 'listener {PORT}\\nallow_anonymous true\\n' >files/urmqtt.conf; mkdir files/folder; echo x >files/folder/x; : >files/empty
    printf 'listener 1883\\nallow_anonymous true\\n' >slot/urmqtt.conf
    echo '#cloud-config' >other/user-data
    xorriso -as mkisofs -r -V CIDATA -o iso files
    xorriso -as mkisofs -r -J -V cidata -o iso-lower files
    xorriso -as mkisofs -r -V cidata -o iso-other other
    truncate -s 16M fat; mkfs.fat -n URMQTT fat; mcopy -s -i fat files/* ::/
    truncate -s 64M fat32; mkfs.fat -F 32 -s 1 -n CIDATA fat32; mcopy -s -i fat32 files/* ::/
    truncate -s 33M stick; dd if=fat of=stick bs=1M seek=1 conv=notrunc
    printf '\\0\\0\\0\\0\\014\\0\\0\\0\\0\\010\\0\\0\\0\\200\\0\\0' | dd of=stick bs=1 seek=446 conv=notrunc
    printf '\\125\\252' | dd of=stick bs=1 seek=510 conv=notrunc
    cp -r files big; seq 100000 >big/zz; xorriso -as mkisofs -r -V CIDATA -o iso-big big
    dd if=iso-big of=iso-cut bs=1K count=500""")
    sh(f"{build_dir()}/tools/urmqtt-stamp {ISO} {d}/slot -o {d}/stamped.iso")
    return d


def cd(image, device):
    return ["-drive", f"if=none,id=v,media=cdrom,readonly=on,format=raw,file={image}", *device]


def disk(image, device):
    return ["-drive", f"if=none,id=v,format=raw,snapshot=on,file={image}", *device]


IDE = ["-device", "ide-cd,drive=v,bus=ide.0,unit=1"]
AHCI = ["-device", "ide-cd,drive=v,bus=ide.1"]
BLK = ["-device", "virtio-blk-pci,drive=v"]
SCSI = ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=v"]
USB = ["-device", "qemu-xhci", "-device", "usb-storage,drive=v"]
# machine, our own medium, how the volume is attached
WAYS = {
    "ide-cd": ("pc", "cd", lambda d: cd(d / "iso", IDE)),
    "ahci-cd": ("q35", "cd", lambda d: cd(d / "iso-lower", AHCI)),
    "virtio-blk": ("q35", "disk", lambda d: disk(d / "fat", BLK)),
    "virtio-blk on pc": ("pc", "cd", lambda d: disk(d / "fat32", BLK)),
    "virtio-scsi": ("q35", "cd", lambda d: disk(d / "fat", SCSI)),
    "usb": ("q35", "cd", lambda d: disk(d / "fat32", USB)),
    "usb, partitioned": ("q35", "cd", lambda d: disk(d / "stick", USB)),
}
SHORT = [("bios", "ide-cd"), ("uefi", "ahci-cd")]


def free_port():
    """At random, as tests of several trees may run on one machine at once."""
    with socket.socket() as s:
        for port in random.sample(range(22000, 30000), 50):
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


def serves(m, port):
    """A message goes to the broker and comes back."""
    client = ["-h", "127.0.0.1", "-p", str(port), "-t", "a/b"]
    sub = subprocess.Popen(["mosquitto_sub", *client, "-q", "1", "-C", "1", "-W", "20"], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    subprocess.run(["mosquitto_pub", *client, "-q", "1", "-m", "by volume"], check=True, timeout=20)
    assert sub.communicate(timeout=25)[0].strip() == "by volume", m.output()[-1500:]


@pytest.mark.parametrize("firmware,way", [
    pytest.param(f, w, marks=[] if (f, w) in SHORT else [pytest.mark.matrix]) for f in ("bios", "uefi") for w in WAYS])
def test_boots_and_serves(volumes, firmware, way):
    machine, medium, attach = WAYS[way]
    port = free_port()
    with Machine(iso=volumes / "stamped.iso", firmware=firmware, machine=machine, medium=medium, forwards=[(port, PORT)],
                 extra=attach(volumes)) as m:
        m.expect("urMQTT (live", 120)
        m.send(b"\r")
        out = m.expect("network 0: 10.0.2.15/24", 120)
        assert "configuration: the volume " in out and f"ready: mqtt on 0.0.0.0:{PORT}" in out
        serves(m, port)


# By our own drivers, without a loader: the device and its options, the medium.
OWN = {
    "blk": (disk, "fat", ["-device", "virtio-blk-pci,drive=v"]),
    "blk legacy": (disk, "fat32", ["-device", "virtio-blk-pci,drive=v,disable-modern=on"]),
    "blk iso": (disk, "iso", ["-device", "virtio-blk-pci,drive=v,disable-legacy=on"]),
    "scsi": (disk, "fat", ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=v"]),
    "scsi cd": (cd, "iso-lower", ["-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=v,scsi-id=2,lun=3"]),
    "scsi cd legacy": (cd, "iso", ["-device", "virtio-scsi-pci,disable-modern=on", "-device", "scsi-cd,drive=v"]),
}
OWN_SHORT = [("q35", "blk"), ("pc", "scsi cd")]


@pytest.mark.parametrize("machine,way", [
    pytest.param(m, w, marks=[] if (m, w) in OWN_SHORT else [pytest.mark.matrix]) for m in ("pc", "q35") for w in OWN])
def test_own_drivers(volumes, machine, way):
    attach, image, device = OWN[way]
    port = free_port()
    with Machine(kernel=KERNEL, machine=machine, forwards=[(port, PORT)], extra=attach(volumes / image, device)) as m:
        out = m.expect("network 0: 10.0.2.15/24", 120)
        assert "configuration: the volume on disk " in out and f"ready: mqtt on 0.0.0.0:{PORT}" in out
        serves(m, port)


@pytest.mark.matrix
@pytest.mark.parametrize("image,said", [("iso-other", "has no urmqtt.conf"), ("iso-cut", "is damaged")])
def test_named_and_passed_over(volumes, image, said):
    with Machine(iso=volumes / "stamped.iso", machine="q35", extra=cd(volumes / image, AHCI)) as m:
        m.expect("urMQTT (live", 120)
        m.send(b"\r")
        out = m.expect("ready: mqtt on 0.0.0.0:1883", 60)
    assert said in out and "configuration: config.slot" in out


def test_reload_from_a_disk(volumes):
    """`reload` typed on the serial line reads the volume again: what was written there meanwhile is served, a mistake is not."""
    image, port = volumes / "again", free_port()
    sh(f"cp {volumes}/fat {image}")
    # No snapshot: the host writes while the machine runs.
    drive = ["-drive", f"if=none,id=v,format=raw,file={image}", *BLK]
    with Machine(kernel=KERNEL, forwards=[(port, PORT + 1)], extra=drive) as m:
        m.expect("network 0: 10.0.2.15/24", 60)
        m.send(b"reload\r")
        m.expect("has not changed", 20)
        conf = f"listener {PORT}\nallow_anonymous true\nlistener {PORT + 1}\n"
        for text, said in ((conf + "nonsense 1\n", "unknown keyword"), (conf, f"listener {PORT + 1} is new")):
            (volumes / "new.conf").write_text(text)
            sh(f"mcopy -o -i {image} {volumes}/new.conf ::/urmqtt.conf")
            m.send(b"reload\r")
            out = m.expect(said, 20)
            assert (f"listener {PORT + 1} is new" in out) == (text == conf)
        m.expect("reload: done", 20)
        serves(m, port)
        m.send(b"status\r")
        m.expect("clients connected", 20)
        m.send(b"poweroff\r")
        m.expect("every client has been told", 20)
