# SPDX-License-Identifier: Apache-2.0
"""A machine with a disk of urMQTT's, made by urmqtt-disk. Proves: what was acknowledged before the machine was killed is
there when it starts again, whatever the disk is attached to; the banner says which it is; a machine whose disk belongs to
somebody else serves from RAM and leaves it alone."""
import os
import socket
import subprocess

import pytest

from run_vm import Machine, build_dir

KERNEL = os.path.join(build_dir(), "x86_64/urmqtt.elf")
DEVICES = {"blk": ["-device", "virtio-blk-pci,drive=own"], "scsi": ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=own"]}


@pytest.fixture
def machine(tmp_path):
    """Starts the machine with this disk."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "urmqtt.conf").write_text("listener 1883\nallow_anonymous true\n")
    tar = f"{tmp_path}/conf.tar"
    subprocess.run(["tar", "--format=ustar", "-C", str(conf), "-cf", tar, "urmqtt.conf"], check=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]

    def start(image, device="blk"):
        m = Machine(kernel=KERNEL, modules=[tar], forwards=[(port, 1883)],
                    extra=["-drive", f"if=none,id=own,format=raw,file={image}", *DEVICES[device]])
        m.port = str(port)
        return m

    return start


def client(m, program, *args, timeout=60):
    return subprocess.run([program, "-h", "127.0.0.1", "-p", m.port, *args], stdout=subprocess.PIPE, text=True, timeout=timeout)


@pytest.mark.parametrize("device", ["blk", pytest.param("scsi", marks=pytest.mark.matrix)])
def test_killed_and_started(machine, tmp_path, device):
    image = str(tmp_path / "disk.img")
    subprocess.run([os.path.join(build_dir(), "tools/urmqtt-disk"), "create", image, "1G", "--write"], check=True,
                   stdout=subprocess.DEVNULL)
    with machine(image, device) as m:
        m.expect("what is acknowledged survives a power cut", 60)
        m.expect("link up", 30)
        client(m, "mosquitto_sub", "-i", "kept", "-c", "-q", "1", "-t", "a/#", "-W", "2")
        for i in range(3):
            assert client(m, "mosquitto_pub", "-t", f"a/{i}", "-m", f"text {i}", "-q", "1").returncode == 0
        assert client(m, "mosquitto_pub", "-t", "r", "-m", "stays", "-q", "2", "-r").returncode == 0
        m.process.kill()
    with machine(image, device) as m:
        m.expect("1 sessions, 1 retained messages, 3 queued", 60)
        m.expect("link up", 30)
        got = client(m, "mosquitto_sub", "-i", "kept", "-c", "-q", "1", "-t", "a/#", "-C", "3", "-W", "20", "-F", "%t %p")
        assert got.stdout.splitlines() == [f"a/{i} text {i}" for i in range(3)]
        got = client(m, "mosquitto_sub", "-t", "r", "-C", "1", "-W", "20", "-F", "%t %r %p")
        assert got.stdout.splitlines() == ["r 1 stays"]


def test_somebody_elses_disk(machine, tmp_path):
    image = tmp_path / "other.img"
    with open(image, "wb") as f:
        f.truncate(600 << 20)
        f.seek(446)
        f.write(b"\0\0\2\0\x83\xff\xff\xff\x3f\0\0\0\0\0\x10\0" + bytes(48) + b"\x55\xaa")
    with machine(str(image)) as m:
        m.expect("live mode: sessions and retained messages live in RAM", 60)
    with open(image, "rb") as f:
        assert f.read(446) == bytes(446) and f.read(16)[4] == 0x83
