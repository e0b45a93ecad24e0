# SPDX-License-Identifier: Apache-2.0
"""Several cores on the bare kernel. Proves: cores=N starts N processors on every machine (pc, q35, virt with GICv2 and
GICv3, with a device tree), the network and mTLS are served on all of them, connections are spread, they end together, an
idle machine uses next to no host CPU, a crash on one stops all; processors that are listed but not there, and more
wanted than there are, do no harm."""
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

import pytest

from run_vm import Machine, build_dir

PKI = os.path.join(build_dir(), "pki")
KERNEL = {"x86_64": os.path.join(build_dir(), "x86_64/urmqtt.elf"), "aarch64": os.path.join(build_dir(), "aarch64/Image")}
CLIENTS = 32


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    d = tmp_path_factory.mktemp("cores")
    for f in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, f), d)
    (d / "urmqtt.conf").write_text("listener 1890\nallow_anonymous true\nlistener 8883\ncafile ca.crt\n"
                                   "certfile server.crt\nkeyfile server.key\n"
                                   "require_certificate true\nuse_identity_as_username true\n")
    tar = f"{d}.tar"
    subprocess.run(["tar", "--format=ustar", "-C", str(d), "-cf", tar, *os.listdir(d)], check=True)
    return tar


def free_ports():
    free = []
    for port in range(21400, 21600):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                free.append(port)
            except OSError:
                continue
        if len(free) == 2:
            return free
    raise AssertionError("no free ports")


def talk(i, plain, mqtts):
    """Connects, subscribes to a topic of its own, sends itself 3 000 bytes; the socket."""
    s = socket.create_connection(("127.0.0.1", mqtts if i % 4 == 0 else plain), 20)
    s.settimeout(20)
    if i % 4 == 0:
        tls = ssl.create_default_context(cafile=f"{PKI}/ca.crt")
        tls.check_hostname = False
        tls.load_cert_chain(f"{PKI}/client.crt", f"{PKI}/client.key")
        s = tls.wrap_socket(s)
    name = b"c%03d" % i
    topic = b"o" + name
    s.sendall(b"\x10\x11\0\4MQTT\5\2\0\x3c\0\0\4" + name)
    assert s.recv(200)[0] == 0x20
    s.sendall(b"\x82\x0b\0\1\0\0\5" + topic + b"\0")
    assert s.recv(200)[0] == 0x90
    body = b"\0\5" + topic + b"\0" + b"x" * 3000
    s.sendall(b"\x30" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body)
    got = b""
    while len(got) < 3 + len(body):
        more = s.recv(4096)
        assert more, got[:40]
        got += more
    assert got[0] == 0x30 and got[3:] == body
    return s


def serves(bundle, cores, arch="x86_64", wanted=None, **how):
    plain, mqtts = free_ports()
    with Machine(kernel=KERNEL[arch], arch=arch, modules=[bundle], forwards=[(plain, 1890), (mqtts, 8883)], memory=256,
                 append=f"cores={wanted or cores}", use="tcg", **how) as m:
        out = m.expect("network 0: 10.0.2.15/24", 60)
        assert f"cores: {cores} of " in out, out
        clients = [talk(i, plain, mqtts) for i in range(CLIENTS)]
        before = m.cpu_seconds()
        time.sleep(3)
        assert m.cpu_seconds() - before < 0.4 + 0.15 * cores, "idle cores must not use the host's processor"
        for s in clients:
            s.close()
        m.send(b"quit\n")
        m.wait_end(20)
        each = [int(n) for n in re.findall(r"stopped: (\d+) connections", m.output())]
        assert len(each) == cores and sum(each) == CLIENTS and min(each) > 0, m.output()


@pytest.mark.parametrize("machine,cores", [("q35", 2), ("pc", 4)])
def test_x86_64(bundle, machine, cores):
    serves(bundle, cores, machine=machine, extra=["-smp", str(cores)])


def test_more_wanted_than_there_are(bundle):
    """Two sockets can take four processors, two are there: the others are listed as not enabled."""
    serves(bundle, 2, wanted=8, machine="q35", extra=["-smp", "2,maxcpus=4"])


def test_x2apic(bundle):
    serves(bundle, 2, machine="q35", cpu="max,+x2apic", extra=["-smp", "2"])


@pytest.mark.parametrize("gic,cores", [("2", 2), ("3", 4)])
def test_aarch64(bundle, gic, cores):
    serves(bundle, cores, arch="aarch64", machine=f"virt,gic-version={gic}", extra=["-smp", str(cores)])


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_a_crash_stops_all(arch):
    with Machine(kernel=KERNEL[arch], arch=arch, append="medium=iso selftest selftest-core-crash cores=3", use="tcg",
                 extra=["-smp", "3"]) as m:
        m.expect("stays as it is", 60)
        text = m.output()
        assert text.count("urMQTT has stopped: E001") == 1, text
        time.sleep(1)
        before = m.cpu_seconds()
        time.sleep(2)
        assert m.cpu_seconds() - before < 0.3, "all cores are halted"
