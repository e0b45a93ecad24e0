# SPDX-License-Identifier: Apache-2.0
"""The broker on its own kernel, reached by real clients. Proves: a stamped ISO serves mutual TLS after a start by BIOS and
by UEFI (200 clients, 5 000 messages of the mix: none lost, duplicated or reordered); -kernel over user networking works
with mosquitto's clients; every shape a virtio-net device comes in carries the mix; without a configuration the consoles
say what is missing; passwords of argon2id are checked; an idle broker uses next to no host CPU."""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from run_vm import Machine, ROOT, build_dir

KERNEL = os.path.join(build_dir(), "x86_64/urmqtt.elf")
ISO = os.path.join(build_dir(), "urmqtt.iso")
PKI = os.path.join(build_dir(), "pki")
MIX = os.path.join(build_dir(), "bench/mqttmix")
READY = "ready: mqtts on 0.0.0.0:8883"
root = pytest.mark.skipif(os.geteuid() != 0, reason="a TAP device wants root")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Two configurations, by DHCP and with a fixed address: as directory, archive and stamped ISO."""
    made = {}
    for name, line in (("dhcp", ""), ("fixed", "network 10.88.0.2/24\n")):
        d = tmp_path_factory.mktemp(name)
        for f in ("ca.crt", "server.crt", "server.key"):
            shutil.copy(os.path.join(PKI, f), d)
        (d / "urmqtt.conf").write_text("listener 8883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
                                       "require_certificate true\nuse_identity_as_username true\n" + line)
        tar, iso = f"{d}.tar", f"{d}.iso"
        subprocess.run(["tar", "--format=ustar", "-C", str(d), "-cf", tar, *os.listdir(d)], check=True)
        subprocess.run([os.path.join(build_dir(), "tools/urmqtt-stamp"), ISO, str(d), "-o", iso], check=True,
                       stdout=subprocess.DEVNULL)
        made[name] = (tar, iso)
    return made


def credentials():
    return ["--cert", f"{PKI}/client.crt", "--key", f"{PKI}/client.key"]


def mix(m, clients, messages, big):
    p = m.in_namespace([MIX, "--host", "10.88.0.2", "--port", "8883", *credentials(), "--ca", f"{PKI}/ca.crt", "--clients",
                        str(clients), "--messages", str(messages), "--big", str(big), "--seed", "7"], 100)
    assert p.returncode == 0 and "every promise held" in p.stdout, p.stdout[-2000:] + p.stderr[-2000:] + m.output()[-1500:]
    return json.loads(p.stdout.splitlines()[-2] if p.stdout.splitlines()[-1].startswith("mix") else p.stdout.splitlines()[-1])


@root
@pytest.mark.parametrize("firmware,machine,medium", [
    ("bios", "q35", "cd"), ("uefi", "q35", "disk"),
    pytest.param("bios", "pc", "disk", marks=pytest.mark.matrix), pytest.param("uefi", "pc", "cd", marks=pytest.mark.matrix)])
def test_iso_serves(bundles, firmware, machine, medium):
    with Machine(iso=bundles["fixed"][1], firmware=firmware, machine=machine, medium=medium, tap="10.88.0.1/24",
                 memory=512) as m:
        m.expect(READY, 90)
        m.expect("network 0: 10.88.0.2/24", 20)
        got = mix(m, 200, 5000, 10)
        print(f"{firmware}: {got['deliveries']} deliveries, {got['bytes_in']} bytes")
        before = m.cpu_seconds()
        time.sleep(5)
        assert m.cpu_seconds() - before < 0.25, "an idle broker must not use the host's processor"


NICS = ["virtio-net-pci,disable-modern=on", "virtio-net-pci,disable-legacy=on", "virtio-net-pci,mrg_rxbuf=off",
        "virtio-net-pci,event_idx=off", "virtio-net-pci,indirect_desc=off", "virtio-net-pci,vectors=0",
        "virtio-net-pci,csum=off,gso=off", "virtio-net-pci,guest_csum=off", "virtio-net-pci,host_mtu=1400",
        "virtio-net-pci,disable-modern=on,mrg_rxbuf=off,any_layout=off", "virtio-net-pci,rx_queue_size=1024",
        "virtio-net-pci,disable-legacy=on,iommu_platform=on", "virtio-net-pci,bus=behind"]
NICS_SHORT = (0, 2, 9)


@root
@pytest.mark.parametrize("nic", [pytest.param(n, marks=[] if i in NICS_SHORT else [pytest.mark.matrix])
                                 for i, n in enumerate(NICS)])
def test_every_virtio_net(bundles, nic):
    bridge = ["-device", "pcie-root-port,id=behind,chassis=1"] if "behind" in nic else []
    with Machine(kernel=KERNEL, modules=[bundles["fixed"][0]], tap="10.88.0.1/24", nic=nic, extra_first=bridge) as m:
        m.expect("network 0: 10.88.0.2/24", 30)
        mix(m, 20, 500, 3)


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_port():
    return next(port for port in range(21000, 21200) if is_free(port))


@pytest.mark.parametrize("machine,cpu", [("q35", "max"), ("pc", "qemu64")])
def test_user_networking(bundles, machine, cpu):
    """What `./urmqtt run` does: no root, DHCP, mosquitto's own clients."""
    port = free_port()
    client = ["-h", "127.0.0.1", "-p", str(port), "--cafile", f"{PKI}/ca.crt", *credentials(), "-t", "a/b"]
    with Machine(kernel=KERNEL, modules=[bundles["dhcp"][0]], forwards=[(port, 8883)], machine=machine, cpu=cpu, use="tcg") as m:
        out = m.expect("network 0: 10.0.2.15/24", 30)
        assert ("ChaCha20" in out) == (cpu == "qemu64")
        sub = subprocess.Popen(["mosquitto_sub", *client, "-q", "1", "-C", "1", "-W", "20"], stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        subprocess.run(["mosquitto_pub", *client, "-q", "1", "-m", "hello kernel"], check=True, timeout=20)
        assert sub.communicate(timeout=25)[0].strip() == "hello kernel"


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_argon2id(tmp_path, arch):
    """A hash of Debian's argon2 command on the bare kernel, block filler and fiber of each family (4 MiB: TCG is slow)."""
    encoded = subprocess.run(["argon2", "x" * 60, "-id", "-e", "-k", "4096", "-t", "2", "-p", "2", "-l", "64"], input="secret",
                             text=True, check=True, capture_output=True).stdout
    (tmp_path / "pw").write_text(f"a:{encoded}")
    (tmp_path / "urmqtt.conf").write_text("listener 1890\npassword_file pw\n")
    tar, port = str(tmp_path / "c.tar"), free_port()
    subprocess.run(["tar", "--format=ustar", "-C", str(tmp_path), "-cf", tar, "pw", "urmqtt.conf"], check=True)
    kernel = KERNEL if arch == "x86_64" else os.path.join(build_dir(), "aarch64/Image")
    with Machine(arch=arch, kernel=kernel, modules=[tar], forwards=[(port, 1890)]) as m:
        m.expect("network 0: 10.0.2.15/24", 60)
        for password, code in (("secret", 0), ("Secret", 5), ("secret", 0)):
            p = subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-t", "t", "-m", "x", "-u", "a", "-P", password],
                               timeout=60, capture_output=True)
            assert p.returncode == code, p.stderr


@pytest.mark.parametrize("how", [("q35", None), ("pc", None), ("q35", "bios"), pytest.param(("q35", "uefi"), marks=pytest.mark.matrix)])
def test_power_button(bundles, how):
    """The button (what `virsh shutdown` presses): clients get DISCONNECT, then the machine goes off; within 5 s."""
    machine, firmware = how
    port = free_port()
    image = {"iso": bundles["dhcp"][1], "firmware": firmware} if firmware else {"kernel": KERNEL, "modules": [bundles["dhcp"][0]]}
    with Machine(**image, forwards=[(port, 8883)], machine=machine, memory=512) as m:
        m.expect("network 0: 10.0.2.15/24", 90)
        tls = ssl.create_default_context(cafile=f"{PKI}/ca.crt")
        tls.check_hostname = False
        tls.load_cert_chain(f"{PKI}/client.crt", f"{PKI}/client.key")
        with socket.create_connection(("127.0.0.1", port), 20) as plain, tls.wrap_socket(plain) as s:
            s.sendall(b"\x10\x10\0\4MQTT\5\2\0\x3c\0\0\3one")
            assert s.recv(100)[:1] == b"\x20"
            before = m.cpu_seconds()
            time.sleep(1)
            assert m.cpu_seconds() - before < 0.3, "an SCI that stays up would keep the processor busy"
            m.monitor("system_powerdown")
            pressed = time.monotonic()
            said = s.recv(100)  # DISCONNECT, reason 0x8b: server shutting down
            assert said[0] == 0xe0 and said[2] == 0x8b and s.recv(100) == b""
        m.wait_end(10)
        assert time.monotonic() - pressed < 5 and m.process.returncode == 0
        assert "stopping: every client has been told" in m.output()


def test_run_with_a_configuration_of_ones_own(tmp_path):
    """`./urmqtt run --config DIR` boots that configuration, says what to paste, and what it says works; Ctrl-C ends it."""
    for f in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, f), tmp_path)
    (tmp_path / "urmqtt.conf").write_text("listener 9883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
                                          "require_certificate true\nlistener 9001\nallow_anonymous true\n")
    port = free_port()
    plain = next(p for p in range(port + 1, port + 100) if is_free(p))
    run = subprocess.Popen(["./urmqtt", "run", "--config", str(tmp_path), "--port", str(port), "--plain-port", str(plain)],
                           cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    timer = threading.Timer(120, os.killpg, (run.pid, signal.SIGTERM))
    timer.start()
    said = ""
    try:
        for line in run.stdout:
            said += line
            if "Ctrl-C ends it" in line:
                break
        paste = [line.strip() for line in said.splitlines() if "mosquitto_pub" in line]
        assert len(paste) == 1 and f"-p {port}" in paste[0], said
        sub = subprocess.Popen(["mosquitto_sub", "-p", str(plain), "-t", "test/#", "-C", "1", "-W", "20"], stdout=subprocess.PIPE)
        time.sleep(1)
        command = paste[0].replace("YOUR-CA", f"{PKI}/ca").replace("YOUR-CLIENT", f"{PKI}/client")
        subprocess.run(command + " -q 1", shell=True, check=True, timeout=20)
        assert sub.communicate(timeout=25)[0] == b"hello, urMQTT\n"
    finally:
        os.killpg(run.pid, signal.SIGINT)
        timer.cancel()
        rest = run.communicate(timeout=20)[0]
    assert run.returncode == 0 and "ended" in rest, said + rest


@root
@pytest.mark.matrix
def test_after_a_minute(bundles):
    """A neighbour's address is asked for again after 60 s, in the middle of traffic (a frame once overwrote another)."""
    with Machine(kernel=KERNEL, modules=[bundles["fixed"][0]], tap="10.88.0.1/24") as m:
        m.expect("network 0: 10.88.0.2/24", 30)
        mix(m, 20, 100, 1)
        time.sleep(62)
        mix(m, 20, 100, 1)
        assert "has stopped" not in m.output()


def test_without_configuration():
    with Machine(kernel=KERNEL) as m:
        out = m.expect("labelled CIDATA or URMQTT", 30)
    assert "no configuration" in out and "urmqtt-stamp" in out
