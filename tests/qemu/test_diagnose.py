# SPDX-License-Identifier: Apache-2.0
"""Diagnostics on both architectures and natively. Proves: the document arrives whole, is what its schema says and tells what QEMU
gave the machine; a disk is not written without WIPE; with it only the longest gap between partitions is; what is no partition
table we understand is not written at all."""
import json
import os
import socket
import subprocess

import jsonschema
import pytest

from diagnose import document, machine
from run_vm import build_dir

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = json.load(open(os.path.join(ROOT, "docs/formats/diagnostics.schema.json")))
MIB = 1 << 20


def check(doc):
    jsonschema.Draft7Validator(SCHEMA).validate(doc)
    assert doc["cryptography"]["handshake"]["works"]
    return doc


def run(arch="x86_64", disks=(), wipe=None, **options):
    with machine(arch, disks, "quick", **options) as m:
        if wipe is not None:
            m.expect("type WIPE", 200)
            m.send(wipe.encode() + b"\r")
        out = m.expect("Diagnostics end here", 240)
        return check(document(m.output())), out


def test_the_schema_refuses_what_is_wrong():
    doc = check(document(subprocess.run([os.path.join(build_dir(), "hosted/urmqtt"), "--diagnose"], check=True,
                                        capture_output=True, text=True).stdout))
    assert doc["platform"] == "hosted" and doc["serves"]
    for key, value in (("cores", 0), ("verdict", 3), ("network", [{"mac": "zz"}]), ("memory_speed", {})):
        with pytest.raises(jsonschema.ValidationError):
            check({**doc, key: value})


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_document(arch):
    doc, text = run(arch)
    assert doc["platform"] == "metal" and doc["cpu"]["architecture"] == arch
    assert len(doc["network"]) == 1 and doc["network"][0]["link_up"] and doc["serves"]
    assert doc["drivers"][0]["driver"] == "virtio-net"
    assert any(d["id"].startswith("1af4:") for d in doc["pci"])
    assert 200 * MIB < doc["memory"]["ram_bytes"] <= 256 * MIB
    assert doc["verdict"] in text and "X25519 derive" in text


def partitioned(path):
    """64 MiB: a GPT with two partitions; free: MiB 11 to 39 (28 MiB) and 50 to 62."""
    with open(path, "wb") as f:
        f.truncate(64 * MIB)
    subprocess.run(["sfdisk", "-q", path], input="label: gpt\nstart=2048, size=20480\nstart=81920, size=20480\n", text=True,
                   check=True)
    with open(path, "r+b") as f:  # what no byte of may change
        for at in range(0, 64 * MIB, 4096):
            if at >= MIB and at < 63 * MIB:
                f.seek(at)
                f.write(bytes([at >> 12 & 0xff or 1]) * 4096)
    return path


def changed(path, before):
    """Which MiB differ."""
    after = open(path, "rb").read()
    return [m for m in range(64) if after[m * MIB:(m + 1) * MIB] != before[m * MIB:(m + 1) * MIB]]


def test_wipe_touches_the_gap_only(tmp_path):
    path = partitioned(str(tmp_path / "disk"))
    before = open(path, "rb").read()
    doc, _ = run(disks=[(path, "virtio-blk-pci")], wipe="no")
    disk = doc["disks"][0]
    assert (disk["free_at"], disk["free_bytes"], disk["written"]) == (11 * MIB, 29 * MIB, False)
    assert disk["read_in_order"]["operations"] > 0 and disk["read_scattered_4k"]["failed"] == 0
    assert changed(path, before) == []
    doc, _ = run(disks=[(path, "virtio-blk-pci")], wipe="WIPE")
    disk = doc["disks"][0]
    assert disk["written"] and disk["write_in_order"]["failed"] == 0 and disk["write_4k_and_flush"]["operations"] > 0
    touched = changed(path, before)
    assert touched and all(11 <= m < 40 for m in touched), touched


@pytest.mark.matrix
def test_what_is_not_understood_is_not_written(tmp_path):
    files = []
    for name, head in (("mbr", "label: dos\nstart=2048, size=20480\n"), ("ext4", None)):
        path = str(tmp_path / name)
        with open(path, "wb") as f:
            f.truncate(64 * MIB)
        if head:
            subprocess.run(["sfdisk", "-q", path], input=head, text=True, check=True)
        else:
            subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
        files.append((path, open(path, "rb").read()))
    doc, _ = run(disks=[(files[0][0], "virtio-blk-pci"), (files[1][0], "virtio-blk-pci")])
    for disk in doc["disks"]:
        assert "no partition table" in disk["not_written_because"] and "written" not in disk
    for path, before in files:
        assert changed(path, before) == []


@pytest.mark.matrix
def test_echo():
    port = 20707
    with machine(words="echo quick", udp=port) as m:
        m.expect("10.0.2.15", 60)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(5)
            for n in range(5):
                s.sendto(b"urmqtt %d" % n, ("127.0.0.1", port))
                assert s.recv(100) == b"urmqtt %d" % n
        m.expect("Diagnostics end here", 240)
