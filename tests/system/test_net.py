# SPDX-License-Identifier: Apache-2.0
"""Proves: src/net speaks TCP, ICMP, UDP errors and DHCP with Linux over a TAP device: bulk both ways byte for byte,
also over a wire that loses, doubles, reorders and damages frames; half-closed and reset connections; many at once."""
import hashlib
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest

import lab
import wire
from lab import BROKER, LINUX

CHARGEN = 4 << 20


class Echo(lab.Broker):
    """build/test/net_echo instead of the broker."""

    def __init__(self, tap="tap0", dhcp=False, **more):
        self.lines = []
        env = dict(os.environ, **({"URMQTT_DHCP": "1"} if dhcp else {}), **more)
        self.p = subprocess.Popen([os.path.join(lab.BUILD, "test", "net_echo"), "--tap", tap, "--memory", "64",
                                   "--seconds", "300"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.wait("ready")


@pytest.fixture(scope="module")
def echo(namespace):
    e = Echo()
    yield e
    assert e.stop() == 0


def connect(port, timeout=60, host=BROKER):
    return socket.create_connection((host, port), timeout=timeout)


def echo_digest(size, seed, host=BROKER):
    """Sends `size` random bytes to port 7 while reading them back; returns whether both are the same."""
    data = random.Random(seed).randbytes(size)
    s = connect(7, host=host)

    def send():
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    got = hashlib.sha256()
    count = 0
    while piece := s.recv(1 << 16):
        got.update(piece)
        count += len(piece)
    sender.join()
    s.close()
    return count == size and got.digest() == hashlib.sha256(data).digest()


def chargen(host=BROKER):
    s = connect(19, host=host)
    got = bytearray()
    while piece := s.recv(1 << 16):
        got += piece
    s.close()
    return bytes(got)


def pattern():
    return bytes((i * 2654435761 & 0xffffffff) >> 11 & 255 for i in range(CHARGEN))


@pytest.mark.parametrize("size", [0, 1, 1460, 1461, 65536, 8 << 20])
def test_echo(echo, size):
    assert echo_digest(size, size)


def test_bulk_out(echo):
    assert chargen() == pattern()


def test_discard_tells_every_byte(echo):
    s = connect(9)
    for n in range(1, 2000):
        s.send(b"x" * (n % 7 + 1))
    total = sum(n % 7 + 1 for n in range(1, 2000))
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b""
    echo.wait(f"port 9: {total} bytes")


def test_many_at_once(echo):
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(echo_digest(200000, i))) for i in range(30)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 30


def test_slow_reader(echo):
    """The window shuts and opens: nothing is lost while nobody reads."""
    s = connect(19)
    time.sleep(1.5)
    got = bytearray()
    while piece := s.recv(3000):
        got += piece
        if len(got) % 90000 < 3000:
            time.sleep(0.05)
    assert bytes(got) == pattern()


def test_reset_and_reuse(echo):
    for i in range(300):
        s = connect(7, 5)
        s.sendall(b"hello")
        assert s.recv(5) == b"hello"
        if i % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # RST
        s.close()
    assert echo_digest(1000, 1)


def test_no_listener(echo):
    with pytest.raises(ConnectionRefusedError):
        connect(1234, 5)
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.settimeout(5)
    u.connect((BROKER, 4321))
    u.send(b"anyone?")
    with pytest.raises(ConnectionRefusedError):
        u.recv(1)


def checksum(data):
    total = sum(int.from_bytes(data[i:i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


@pytest.mark.parametrize("size", [0, 1, 56, 1472])
def test_ping(echo, size):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    s.settimeout(5)
    body = struct.pack(">HH", 77, size) + random.Random(size).randbytes(size)
    s.sendto(b"\x08\0" + struct.pack(">H", checksum(b"\x08\0\0\0" + body)) + body, (BROKER, 0))
    while True:
        packet, source = s.recvfrom(4096)
        if source[0] == BROKER and packet[20] == 0 and packet[24:28] == body[:4]:
            break
    assert packet[24:] == body and checksum(packet[20:]) == 0


def test_the_bad_wire_is_as_bad_as_it_says(namespace):
    """Of 2 x 1500 frames 4 % lost, 2 % doubled: a wire that loses nothing would prove nothing."""
    with wire.Wire("python", loss=4, duplicate=2, reorder=5) as w:
        said = wire.measure(w, frames=1500)
    counts = [[int(n) for n in re.findall(r"(\d+) (?:lost|doubled|overtaken)", line)] for line in said.splitlines()]
    assert len(counts) == 2, said
    for lost, doubled, overtaken in counts:
        assert 25 <= lost <= 110 and 8 <= doubled <= 65 and overtaken >= 20, said


def test_bad_wire(namespace):
    with lab.BadWire() as w:
        e = Echo(tap=w.tap)
        try:
            for seed in range(3):
                assert echo_digest(300000, seed)
            assert chargen() == pattern()
        finally:
            assert e.stop() == 0


def test_dhcp(namespace, tmp_path):
    if shutil.which("dnsmasq") is None:
        pytest.skip("no dnsmasq here")
    lab.sh("ip tuntap add dev tap2 mode tap vnet_hdr && ip addr add 10.9.2.1/24 dev tap2 && ip link set tap2 up")
    d = subprocess.Popen(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=tap2",
                          "--bind-interfaces", "--dhcp-range=10.9.2.50,10.9.2.59,2m", "--dhcp-option=26,1400",
                          "--dhcp-option=121,0.0.0.0/0,10.9.2.77", "--user=root", "--pid-file=",
                          f"--dhcp-leasefile={tmp_path}/leases"], stderr=subprocess.DEVNULL)
    try:
        e = Echo(tap="tap2", dhcp=True)
        e.wait(r"address 10\.9\.2\.5\d/24 gateway 0xa09024d mtu 1400", 20)
        assert e.stop() == 0
    finally:
        d.terminate()
        d.wait(5)
        lab.sh("ip link del tap2")


def dnsmasq(tap, tmp_path, *more):
    return subprocess.Popen(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", f"--interface={tap}",
                             "--bind-interfaces", "--user=root", "--pid-file=", "--log-dhcp", "--log-facility=-", "--no-ping",
                             f"--dhcp-leasefile={tmp_path}/leases-{tap}", *more], stderr=subprocess.PIPE, text=True)


def test_dhcp_renews(namespace, tmp_path):
    """T1 after four seconds, to the server alone; routes beside the default one (RFC 3442)."""
    if shutil.which("dnsmasq") is None:
        pytest.skip("no dnsmasq here")
    lab.sh("ip tuntap add dev tap3 mode tap vnet_hdr && ip addr add 10.9.3.1/24 dev tap3 && ip link set tap3 up")
    d = dnsmasq("tap3", tmp_path, "--dhcp-range=10.9.3.50,10.9.3.59,2m", "--dhcp-option-force=58,4",
                "--dhcp-option=121,10.77.0.0/16,10.9.3.1,0.0.0.0/0,10.9.3.1")
    try:
        e = Echo(tap="tap3", dhcp=True)
        address = e.wait(r"address 10\.9\.3\.5\d/24 gateway 0xa090301", 20).split()[1].split("/")[0]
        assert echo_digest(1000, 1, host=address)
        time.sleep(7)
        assert e.stop() == 0
    finally:
        d.terminate()
        said = d.communicate(timeout=5)[1]
        lab.sh("ip link del tap3")
    assert said.count("DHCPACK(tap3)") >= 2 and said.count("DHCPDISCOVER(tap3)") == 1, said


def test_dhcp_declines(namespace, tmp_path):
    """The first address that the server offers is another machine's: it is declined, another one is taken."""
    if shutil.which("dnsmasq") is None:
        pytest.skip("no dnsmasq here")
    lab.sh("ip tuntap add dev tap4 mode tap vnet_hdr && ip link add br4 type bridge && ip link set tap4 master br4 up && "
           "ip addr add 10.9.4.1/24 dev br4 && ip link set br4 up && ip netns add other4 && "
           "ip link add up4 type veth peer name in4 && ip link set up4 master br4 up && ip link set in4 netns other4 && "
           "ip netns exec other4 ip link set in4 up && ip netns exec other4 ip addr add 10.9.4.50/24 dev in4 && "
           "ip netns exec other4 ip addr add 10.9.4.51/24 dev in4 && ip netns exec other4 ip addr add 10.9.4.52/24 dev in4")
    d = dnsmasq("br4", tmp_path, "--dhcp-range=10.9.4.50,10.9.4.53,2m")
    try:
        e = Echo(tap="tap4", dhcp=True)
        e.wait(r"address 10\.9\.4\.53/24", 60)
        assert e.stop() == 0
    finally:
        d.terminate()
        said = d.communicate(timeout=5)[1]
        lab.sh("ip netns del other4; ip link del br4; ip link del tap4")
    assert 1 <= said.count("DHCPDECLINE(br4)") <= 3, said
