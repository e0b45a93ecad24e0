# SPDX-License-Identifier: Apache-2.0
"""The disk drivers on every shape of virtio-blk and virtio-scsi, on `pc` and `q35`. Proves: each is driven as what it is, with
the right blocks and limits; what the kernel wrote stands in the image at its own offset (the host looks), what it zeroed is
zero; a disk that grows while running is noticed; a disk without FLUSH is warned about; an error of the host arrives as one."""
import os
import re
import struct
import subprocess

import pytest

from run_vm import Machine, build_dir

KERNEL = os.path.join(build_dir(), "x86_64/urmqtt.elf")
SIZE = 64 << 20
PIECE, PIECES = 64 << 10, 48


def blk(options=""):
    return f"virtio-blk-pci,drive=v{',' + options if options else ''}".split()


def scsi(adapter="", disk=""):
    return f"virtio-scsi-pci,id=s{',' + adapter if adapter else ''} -device scsi-hd,bus=s.0,drive=v{',' + disk if disk else ''}".split()


BLOCKS4K = "logical_block_size=4096,physical_block_size=4096"
# device, block length, what the kernel must say
ROWS = {
    "blk": (blk(), 512, "virtio-blk modern, interrupts MSI-X, queue 256"),
    "blk legacy": (blk("disable-modern=on"), 512, "virtio-blk legacy, interrupts MSI-X, queue 256"),
    "blk modern only": (blk("disable-legacy=on"), 512, "virtio-blk modern, interrupts MSI-X"),
    "blk 4096": (blk(BLOCKS4K), 4096, "virtio-blk modern, interrupts MSI-X"),
    "blk 4096 legacy": (blk("disable-modern=on," + BLOCKS4K), 4096, "virtio-blk legacy, interrupts MSI-X"),
    "blk no event_idx": (blk("event_idx=off"), 512, "virtio-blk modern, interrupts MSI-X"),
    "blk no indirect": (blk("indirect_desc=off"), 512, "virtio-blk modern, interrupts MSI-X"),
    "blk polled": (blk("vectors=0"), 512, "virtio-blk modern, interrupts none (polled)"),
    "blk polled legacy": (blk("vectors=0,disable-modern=on"), 512, "virtio-blk legacy, interrupts none (polled)"),
    "blk short queue": (blk("queue-size=16,seg-max-adjust=on"), 512, "virtio-blk modern, interrupts MSI-X, queue 16"),
    "blk 4 queues": (blk("num-queues=4"), 512, "virtio-blk modern, interrupts MSI-X"),
    "blk iommu": (blk("disable-legacy=on,iommu_platform=on"), 512, "virtio-blk modern, interrupts MSI-X"),
    "blk no discard": (blk("discard=off,write-zeroes=off"), 512, "virtio-blk modern, interrupts MSI-X"),
    "blk write-through": (blk("write-cache=off"), 512, "virtio-blk modern, interrupts MSI-X"),
    "scsi": (scsi(), 512, "virtio-scsi modern, interrupts MSI-X, queue 256"),
    "scsi legacy": (scsi("disable-modern=on"), 512, "virtio-scsi legacy, interrupts MSI-X, queue 256"),
    "scsi modern only": (scsi("disable-legacy=on"), 512, "virtio-scsi modern, interrupts MSI-X"),
    "scsi 4096": (scsi("", BLOCKS4K), 4096, "virtio-scsi modern, interrupts MSI-X"),
    "scsi 4096 legacy": (scsi("disable-modern=on", BLOCKS4K), 4096, "virtio-scsi legacy, interrupts MSI-X"),
    "scsi no indirect": (scsi("indirect_desc=off,event_idx=off"), 512, "virtio-scsi modern, interrupts MSI-X"),
    "scsi polled": (scsi("vectors=0"), 512, "virtio-scsi modern, interrupts none (polled)"),
    "scsi 4 queues": (scsi("num_queues=4"), 512, "virtio-scsi modern, interrupts MSI-X"),
    "scsi far": (scsi("", "scsi-id=7,lun=200"), 512, "virtio-scsi modern, interrupts MSI-X"),
}
SHORT = {("pc", "blk legacy"), ("q35", "scsi 4096")}


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image"
    with open(path, "wb") as f:
        f.truncate(SIZE)
    return path


def start(machine, device, image, words="", drive=""):
    return Machine(kernel=KERNEL, machine=machine, append="disk-exercise-and-erase " + words,
                   extra=["-drive", f"if=none,id=v,format=raw,discard=unmap,file={image}{drive}", "-device", *device])


def stands(image, block_len):
    """Every piece but the zeroed and the discarded one, where it belongs."""
    with open(image, "rb") as f:
        data = f.read()
    stride = (SIZE - PIECE) // (PIECES - 1) // block_len * block_len
    places = [k * stride for k in range(PIECES - 1)] + [SIZE - PIECE]
    for at in places[2:]:
        for off in range(at, at + PIECE, 512):
            assert struct.unpack_from("<QQ", data, off) == (off, off), f"at {off}"
    return data[:PIECE] == bytes(PIECE)


@pytest.mark.parametrize("machine,row", [
    pytest.param(m, r, marks=[] if (m, r) in SHORT else [pytest.mark.matrix]) for m in ("pc", "q35") for r in ROWS])
def test_driven(image, machine, row):
    device, block_len, said = ROWS[row]
    with start(machine, device, image) as m:
        out = m.expect("Disks: end of the exercise", 90)
        m.wait_end(20)
    line = re.search(r"disk \S+: write .*", out).group(0)
    assert "FAILED" not in line and line.count("ok") == 6, line
    assert said in out and f"bytes, blocks of {block_len} " in out
    assert "flush NO" not in out
    assert stands(image, block_len) or row == "blk no discard"


@pytest.mark.matrix
@pytest.mark.parametrize("row", ["blk", "blk legacy", "scsi"])
def test_grows(image, row):
    with start("q35", ROWS[row][0], image, "disk-grows") as m:
        m.expect("waits to grow", 60)
        m.monitor(f"block_resize v {SIZE // (1 << 20) * 2}M")
        m.expect(f"now {SIZE * 2} bytes", 30)


@pytest.mark.matrix
def test_without_flush(image):
    with start("q35", blk("write-cache=off,config-wce=off"), image) as m:
        out = m.expect("Disks: end of the exercise", 60)
    assert "WARNING: disk blk0 has no FLUSH" in out


@pytest.mark.matrix
@pytest.mark.parametrize("row", ["blk", "scsi"])
def test_error_of_the_host(image, row, tmp_path):
    """The host's disk fails one write and one flush: the kernel says so and goes on."""
    rules = tmp_path / "rules"
    rules.write_text('[inject-error]\nevent = "pwritev"\nerrno = "5"\nonce = "on"\nsector = "-1"\n'
                     '[inject-error]\nevent = "flush_to_disk"\nerrno = "5"\nonce = "on"\n')
    device = ROWS[row][0]
    with Machine(kernel=KERNEL, append="disk-exercise-and-erase",
                 extra=["-drive", f"if=none,id=v,format=raw,werror=report,rerror=report,file=blkdebug:{rules}:{image}",
                        "-device", *device]) as m:
        out = m.expect("Disks: end of the exercise", 90)
    assert "statuses FAILED" in out, out[-1500:]


ARM = os.path.join(build_dir(), "aarch64/Image")


@pytest.mark.matrix
@pytest.mark.skipif(not os.path.exists(ARM), reason="wants `make aarch64`")
@pytest.mark.parametrize("row", ["blk", "blk 4096", "scsi", "scsi 4096"])
@pytest.mark.parametrize("machine", ["virt,gic-version=2", "virt,gic-version=3,its=on"])
def test_aarch64(image, machine, row):
    device, block_len, said = ROWS[row]
    p = subprocess.run(["qemu-system-aarch64", "-M", machine, "-cpu", "max", "-m", "256", "-display", "none", "-nic", "none",
                        "-serial", "stdio", "-kernel", ARM, "-append", "disk-exercise-and-erase",
                        "-drive", f"if=none,id=v,format=raw,discard=unmap,file={image}", "-device", *device],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=90)
    out = p.stdout.decode("latin-1")
    line = re.search(r"disk \S+: write .*", out).group(0)
    assert "FAILED" not in line and said in out and f"blocks of {block_len} " in out, out
    assert stands(image, block_len)
