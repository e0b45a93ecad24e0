# SPDX-License-Identifier: Apache-2.0
"""The aarch64 kernel under QEMU's TCG. Proves: a device tree and GICv3 with ITS, and UEFI with ACPI through the stamped ISO's
GRUB, each come up and serve a publish over mutual TLS; each provoked fault ends in its own crash text; places and canaries
differ from boot to boot; an idle broker uses next to no host CPU; the power key ends the machine; processors with and
without the newer protections and both interrupt controllers work (matrix)."""
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from run_vm import Machine, build_dir, write_png

IMAGE = os.path.join(build_dir(), "aarch64/Image")
ISO = os.path.join(build_dir(), "urmqtt.iso")
PKI = os.path.join(build_dir(), "pki")
READY = "network 0: 10.0.2.15/24"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A configuration: as archive, and stamped into the ISO."""
    d = tmp_path_factory.mktemp("arm")
    for f in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, f), d)
    (d / "urmqtt.conf").write_text("listener 8883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
                                   "require_certificate true\nuse_identity_as_username true\n")
    tar, iso = f"{d}.tar", f"{d}.iso"
    subprocess.run(["tar", "--format=ustar", "-C", str(d), "-cf", tar, *os.listdir(d)], check=True)
    subprocess.run([os.path.join(build_dir(), "tools/urmqtt-stamp"), ISO, str(d), "-o", iso], check=True,
                   stdout=subprocess.DEVNULL)
    return tar, iso


def free_port():
    with socket.socket() as s:
        for port in range(21200, 21400):
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


def publish(port):
    """One message through the broker, by mosquitto's clients with certificates, at QoS 1."""
    client = ["-h", "127.0.0.1", "-p", str(port), "--cafile", f"{PKI}/ca.crt", "--cert", f"{PKI}/client.crt",
              "--key", f"{PKI}/client.key", "-t", "a/b", "-q", "1"]
    subprocess.run(["mosquitto_pub", *client, "-r", "-m", "hello arm"], check=True, timeout=60)
    got = subprocess.run(["mosquitto_sub", *client, "-C", "1", "-W", "50"], stdout=subprocess.PIPE, text=True, timeout=60)
    assert got.stdout.strip() == "hello arm"


def serve(check_idle=False, timeout=60, **how):
    port = free_port()
    with Machine(arch="aarch64", forwards=[(port, 8883)], **how) as m:
        m.expect(READY, timeout)
        publish(port)
        if check_idle:
            before = m.cpu_seconds()
            time.sleep(5)
            assert m.cpu_seconds() - before < 0.3, "an idle broker must not use the host's processor"
        return m.output()


def test_tree_serves(bundle):
    out = serve(kernel=IMAGE, modules=[bundle[0]], check_idle=True)
    assert "arm64 Image (device tree)" in out and "messages by ITS" in out and "entropy: good" in out


def test_iso_serves(bundle):
    port = free_port()
    with Machine(arch="aarch64", iso=bundle[1], firmware="uefi", cpu="cortex-a57", machine="virt,gic-version=2",
                 forwards=[(port, 8883)]) as m:
        menu = m.expect("Diagnostics (what", 60)
        assert "urMQTT (live" in menu and "Install to this machine's disk" in menu
        m.send(b"\r")
        out = m.expect(READY, 60)
        assert "EFI stub (UEFI)" in out and "messages by GICv2m" in out and "(battery clock)" in out
        publish(port)
        picture = m.screen()
        write_png(os.path.join(build_dir(), "qemu/iso-aarch64.png"), *picture)
        assert sum(1 for i in range(0, len(picture[2]), 3) if picture[2][i] > 64) > 1000, "no text on the screen"


@pytest.mark.matrix
@pytest.mark.parametrize("medium", ["cd", "disk"])
def test_iso_media(bundle, medium):
    serve(iso=bundle[1], firmware="uefi", medium=medium, timeout=90)


@pytest.mark.matrix
@pytest.mark.parametrize("firmware", ["bios", "uefi"])
@pytest.mark.parametrize("gic", ["2", "3"])
@pytest.mark.parametrize("cpu", ["max", "cortex-a53", "cortex-a57", "cortex-a72", "neoverse-n1"])
def test_processors(bundle, cpu, gic, firmware):
    """bios here: no firmware at all, a device tree."""
    out = serve(kernel=IMAGE, modules=[bundle[0]], cpu=cpu, machine=f"virt,gic-version={gic}", firmware=firmware, timeout=90)
    assert ("messages by ITS" if gic == "3" else "messages by GICv2m") in out


@pytest.mark.matrix
@pytest.mark.parametrize("firmware", ["bios", "uefi"])
@pytest.mark.parametrize("cpu", ["max", "cortex-a57"])
def test_hypervisor_level(bundle, cpu, firmware):
    """Entered at EL2, as on hardware."""
    serve(kernel=IMAGE, modules=[bundle[0]], cpu=cpu, machine="virt,virtualization=on,gic-version=3", firmware=firmware,
          timeout=90)


NICS = ["virtio-net-pci,disable-legacy=on", "virtio-net-pci,disable-modern=on", "virtio-net-pci,vectors=0",
        "virtio-net-pci,mrg_rxbuf=off", "virtio-net-pci,bus=behind"]


@pytest.mark.matrix
@pytest.mark.parametrize("nic", NICS)
def test_network_cards(bundle, nic):
    """No firmware: the registers of each are placed by us, those behind a bridge too."""
    bridge = ["-device", "pcie-root-port,id=behind,chassis=1"] if "behind" in nic else []
    serve(kernel=IMAGE, modules=[bundle[0]], nic=nic, extra_first=bridge)


@pytest.mark.skipif(os.geteuid() != 0, reason="a TAP device wants root")
@pytest.mark.matrix
@pytest.mark.parametrize("gic", ["2", "3"])
def test_mix(tmp_path, gic):
    """The mixed load of the x86_64 tests over TAP: none lost, duplicated or reordered."""
    for f in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, f), tmp_path)
    (tmp_path / "urmqtt.conf").write_text("listener 8883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
                                          "require_certificate true\nuse_identity_as_username true\n"
                                          "network 10.88.0.2/24\n")
    tar = str(tmp_path / "c.tar")
    subprocess.run(["tar", "--format=ustar", "-C", str(tmp_path), "-cf", tar, "urmqtt.conf", "ca.crt", "server.crt",
                    "server.key"], check=True)
    with Machine(arch="aarch64", kernel=IMAGE, modules=[tar], tap="10.88.0.1/24", memory=512,
                 machine=f"virt,gic-version={gic}") as m:
        m.expect("network 0: 10.88.0.2/24", 60)
        p = m.in_namespace([os.path.join(build_dir(), "bench/mqttmix"), "--host", "10.88.0.2", "--port", "8883", "--cert",
                            f"{PKI}/client.crt", "--key", f"{PKI}/client.key", "--ca", f"{PKI}/ca.crt", "--clients", "50",
                            "--messages", "2000", "--big", "3", "--seed", "7"], 200)
        assert p.returncode == 0 and "every promise held" in p.stdout, p.stdout[-1500:] + p.stderr[-500:] + m.output()[-1500:]


@pytest.mark.matrix
def test_no_messages(bundle):
    """An interrupt controller without ITS: polled."""
    out = serve(kernel=IMAGE, modules=[bundle[0]], machine="virt,gic-version=3,its=off")
    assert "messages none" in out


@pytest.mark.matrix
def test_acpi_off(bundle):
    """UEFI that hands over a device tree instead of ACPI tables."""
    serve(kernel=IMAGE, modules=[bundle[0]], machine="virt,gic-version=3,acpi=off", firmware="uefi", timeout=90)


FAULTS = {"assert": "E001", "canary": "E002", "stack": "E034", "null": "E035", "write-text": "E035", "run-data": "E035",
          "cfi": "E031"}


@pytest.mark.parametrize("fault,cpu", [pytest.param(f, c, marks=[] if (f, c) in (("stack", "max"), ("run-data", "cortex-a57"))
                                                    else [pytest.mark.matrix])
                                       for f in sorted(FAULTS) for c in ("max", "cortex-a57")])
def test_crash_text(fault, cpu):
    with Machine(arch="aarch64", kernel=IMAGE, append=f"selftest selftest-{fault}", cpu=cpu) as m:
        out = m.expect("restarts in 60 seconds", 60)
        told = out[out.index("urMQTT has stopped"):]
        assert f"urMQTT has stopped: {FAULTS[fault]}\n" in told
        assert not re.search(r"0x[0-9a-f]{4}|[0-9a-f]{16}|elr|esr", told, re.I), told


def test_places():
    places = set()
    for _ in range(3):
        with Machine(arch="aarch64", kernel=IMAGE, append="selftest") as m:
            out = m.expect("selftest: ok", 60)
            m.wait_end(20)  # by PSCI
        places.add(re.search(r"kaslr: (0x[0-9a-f]+)", out).group(1))
    assert len(places) == 3 and all(int(p, 16) % 4096 == 0 and int(p, 16) >> 48 == 0xffff for p in places)


@pytest.mark.matrix
def test_power_key(bundle):
    with Machine(arch="aarch64", kernel=IMAGE, modules=[bundle[0]], forwards=[(free_port(), 8883)]) as m:
        m.expect(READY, 60)
        m.monitor("system_powerdown")
        assert m.wait_end(30)


VOLUMES = {"virtio-blk": ["-device", "virtio-blk-pci,drive=v"],
           "virtio-scsi": ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=v"],
           "virtio-scsi CD": ["-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=v"]}


@pytest.mark.matrix
@pytest.mark.parametrize("firmware", ["bios", "uefi"])
@pytest.mark.parametrize("way", sorted(VOLUMES))
def test_volume(tmp_path, way, firmware):
    """A configuration volume, read by our own drivers with interrupts by ITS."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "urmqtt.conf").write_text("listener 1890\nallow_anonymous true\n")
    image = tmp_path / "volume"
    subprocess.run(["xorriso", "-as", "mkisofs", "-r", "-V", "CIDATA", "-o", image, files], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = free_port()
    with Machine(arch="aarch64", kernel=IMAGE, firmware=firmware, forwards=[(port, 1890)],
                 extra=["-drive", f"if=none,id=v,readonly=on,format=raw,file={image}", *VOLUMES[way]]) as m:
        m.expect(READY, 60)
        subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-q", "1", "-t", "a", "-m", "b"], check=True,
                       timeout=20)


@pytest.mark.matrix
def test_restarts_after_a_crash():
    with Machine(arch="aarch64", kernel=IMAGE, append="selftest selftest-assert") as m:
        m.expect("restarts in 60 seconds", 60)
        took = m.wait_end(80)  # -no-reboot: PSCI's reset ends QEMU
        assert took > 58


@pytest.mark.matrix
def test_little_and_much_memory(bundle):
    serve(kernel=IMAGE, modules=[bundle[0]], memory=64)
    assert "6144 MiB of RAM" in serve(kernel=IMAGE, modules=[bundle[0]], memory=6144)
