# SPDX-License-Identifier: Apache-2.0
"""Proves: src/net speaks IPv6 with Linux over a TAP device: TCP both ways byte for byte, also with a smaller MTU in the
middle (RFC 8201) and through a gateway outside the prefix; ICMPv6; neighbours both ways; addresses, routers and MTU by
radvd; MQTT over mTLS. Storms of ARP and neighbour discovery and lying routers disturb no client."""
import ipaddress
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest

import lab
from lab import sh
from test_net import Echo, chargen, connect, echo_digest, pattern

TAP, OURS, LINUX6 = "tap6", "2001:db8:9::2", "2001:db8:9::1"


@pytest.fixture(scope="module")
def link(namespace):
    sh(f"ip tuntap add dev {TAP} mode tap vnet_hdr; ip addr add {LINUX6}/64 dev {TAP} nodad; ip addr add 10.9.0.1/24 dev {TAP}"
       if not os.path.exists(f"/sys/class/net/{TAP}") else "true")
    sh("ip addr flush dev tap0; ip link set tap0 down")
    sh(f"ip link set {TAP} up")
    yield TAP
    sh(f"ip link del {TAP}; ip addr add {lab.LINUX}/24 dev tap0; ip link set tap0 up")


@pytest.fixture(scope="module")
def echo6(link):
    e = Echo(tap=link, URMQTT_IP6=OURS, URMQTT_GATEWAY6=LINUX6)
    e.wait(f"address6 {OURS}")
    yield e
    assert e.stop() == 0


def test_bulk(echo6):
    assert echo_digest(3000000, 1, host=OURS)
    assert chargen(host=OURS) == pattern()


def test_many(echo6):
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(echo_digest(100000, i, host=OURS))) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 20


def test_both_families(echo6):
    """One listener serves both."""
    assert echo_digest(100000, 2) and echo_digest(100000, 3, host=OURS)


@pytest.mark.parametrize("size", [0, 1, 56, 1452])
def test_ping(echo6, size):
    s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    s.settimeout(5)
    body = struct.pack(">HH", 77, size) + random.Random(size).randbytes(size)
    s.sendto(b"\x80\0\0\0" + body, (OURS, 0))
    while True:
        packet, source = s.recvfrom(4096)
        if source[0] == OURS and packet[0] == 129 and packet[4:8] == body[:4]:
            break
    assert packet[4:] == body[:]


def test_no_listener(echo6):
    with pytest.raises(ConnectionRefusedError):
        connect(1234, 5, host=OURS)
    u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    u.settimeout(5)
    u.connect((OURS, 4321))
    u.send(b"anyone?")
    with pytest.raises(ConnectionRefusedError):
        u.recv(1)


def test_neighbours_forget_each_other(echo6):
    s = connect(7, host=OURS)
    for _ in range(5):
        sh(f"ip -6 neigh flush dev {TAP}")
        s.sendall(b"still there?")
        assert s.recv(12) == b"still there?"
    s.close()
    said = subprocess.run(["ip", "-6", "neigh", "show", OURS], capture_output=True, text=True).stdout
    assert "lladdr" in said and "router" not in said, said


def test_path_mtu(echo6):
    """Behind Linux a link of 1300 bytes, and a peer that says it could take 1500: only Packet Too Big tells."""
    sh("ip netns add far6; ip link add near6 mtu 1300 type veth peer name far0; ip link set far0 netns far6")
    far = "ip netns exec far6 "
    try:
        sh("sysctl -qw net.ipv6.conf.all.forwarding=1; ip addr add 2001:db8:f::1/64 dev near6 nodad; ip link set near6 up")
        sh(f"{far}ip link set lo up; {far}ip link set far0 mtu 1300 up; {far}ip addr add 2001:db8:f::2/64 dev far0 nodad")
        sh(f"{far}ip -6 route add default via 2001:db8:f::1 advmss 1440")
        code = ("import socket,hashlib\n"
                f"s=socket.create_connection(('{OURS}',19),timeout=20)\nh=hashlib.sha256()\n"
                "while p:=s.recv(65536): h.update(p)\nprint(h.hexdigest())")
        start = time.time()
        said = subprocess.run(far.split() + ["/usr/bin/python3", "-c", code], capture_output=True, text=True, timeout=60)
        import hashlib
        assert said.stdout.strip() == hashlib.sha256(pattern()).hexdigest(), said
        assert time.time() - start < 20
        counted = subprocess.run(["cat", "/proc/net/snmp6"], capture_output=True, text=True).stdout
        assert int(counted.split("Icmp6OutPktTooBigs")[1].split()[0]) > 0
    finally:
        sh("ip netns del far6; sysctl -qw net.ipv6.conf.all.forwarding=0")


def raw(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((interface, 0))
    return s


def csum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def icmp6(mac, source, target, body, hop=255):
    """A whole frame; multicast targets get their MAC."""
    s, t = (ipaddress.IPv6Address(a).packed for a in (source, target))
    body = body[:2] + struct.pack(">H", csum(s + t + struct.pack(">II", len(body), 58) + body[:2] + b"\0\0" + body[4:])) + body[4:]
    to = b"\x33\x33" + t[12:] if t[0] == 0xff else b"\xff" * 6
    return to + mac + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, len(body), 58, hop) + s + t + body


def arp(operation, mac, sender, target):
    return (b"\xff" * 6 + mac + b"\x08\x06" + bytes.fromhex("0001080006040000")[:6] + struct.pack(">H", operation) + mac +
            socket.inet_aton(sender) + b"\0" * 6 + socket.inet_aton(target))


def test_storms_and_lies(echo6):
    """40 000 frames of ARP and ND from as many strangers, routers that promise and revoke: two
    clients, one of each family, are answered all the while."""
    clients = [connect(7, 20), connect(7, 20, host=OURS)]
    ours = ipaddress.IPv6Address(OURS).packed
    group = "ff02::1:ff00:2"
    s = raw(TAP)
    worst = 0.0
    for i in range(10000):
        mac = bytes([2, 9]) + struct.pack(">I", i)
        stranger = f"2001:db8:9::{i >> 8:x}:{i & 255:x}:77"
        frames = [icmp6(mac, stranger, group, b"\x87\0\0\0\0\0\0\0" + ours + b"\1\1" + mac),
                  arp(1, mac, f"10.9.{100 + (i >> 8) % 100}.{i % 250}", "10.9.0.2"),
                  icmp6(mac, f"fe80::{i:x}", "ff02::1", b"\x86\0\0\0\1\0" + struct.pack(">HII", 9000 * (i & 1), 1, 1) +
                        b"\5\1\0\0\0\0\0\x44" + b"\3\4\x40\xc0" + b"\xff" * 8 + b"\0" * 4 +
                        struct.pack(">II", 0x20010db8, i) + b"\0" * 8),
                  icmp6(mac, OURS, "ff02::1", b"\x88\0\0\0\x20\0\0\0" + ours + b"\2\1" + mac)]
        for f in frames:
            try:
                s.send(f)
            except OSError:
                pass  # the TAP's queue is full: that is a storm
        if i % 200 == 0:
            for c in clients:
                start = time.time()
                c.sendall(b"x" * 100)
                got = b""
                while len(got) < 100:
                    got += c.recv(100)
                worst = max(worst, time.time() - start)
    for c in clients:
        c.close()
    print(f"longest answer {worst * 1000:.0f} ms")
    assert worst < 3
    assert echo_digest(100000, 5) and echo_digest(100000, 6, host=OURS)


def test_radvd(namespace, tmp_path):
    if shutil.which("radvd") is None:
        pytest.skip("no radvd here")
    sh("ip tuntap add dev tap7 mode tap vnet_hdr && ip addr add 2001:db8:a::1/64 dev tap7 nodad && ip link set tap7 up")
    sh("sysctl -qw net.ipv6.conf.all.forwarding=1")
    conf = tmp_path / "radvd.conf"
    conf.write_text("interface tap7 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvLinkMTU 1400;\n"
                    "prefix 2001:db8:a::/64 { AdvValidLifetime 600; AdvPreferredLifetime 300; }; RDNSS 2001:db8:a::1 {}; };\n")
    r = subprocess.Popen(["radvd", "-n", "-C", str(conf), "-p", str(tmp_path / "pid"), "-m", "stderr"],
                         stderr=subprocess.DEVNULL)
    try:
        e = Echo(tap="tap7", URMQTT_IP6="auto")
        ours = e.wait(r"address6 2001:db8:a:", 20).split()[1]
        e.wait("gateway6 fe80:", 5)
        assert echo_digest(200000, 1, host=ours) and chargen(host=ours) == pattern()
        r.terminate()  # says that it leaves (router lifetime 0)
        r.wait(5)
        e.wait("gateway6 ::$", 10)
        assert echo_digest(1000, 2, host=ours)  # the prefix is still on the link
        assert e.stop() == 0
    finally:
        r.kill()
        sh("ip link del tap7; sysctl -qw net.ipv6.conf.all.forwarding=0")


@pytest.mark.parametrize("cores", [1, 3])
def test_mqtt_over_mtls(namespace, pki, tmp_path, cores):
    """mosquitto's clients by the address and by its link-local one; the log says who."""
    tap, ours, linux = f"tap8{cores}", "2001:db8:8::2", "2001:db8:8::1"
    sh(f"ip tuntap add dev {tap} mode tap vnet_hdr; ip addr add {linux}/64 dev {tap} nodad; ip link set {tap} up")
    config = lab.CONFIG.replace(f"network {lab.BROKER}/24", f"network {lab.BROKER}/24 ip6 {ours}/64")
    b = lab.Broker(str(tmp_path), pki, config, tap=tap, cores=cores)
    try:
        b.wait(f"network 0: {ours}")
        near = b.wait("network 0: fe80:").split()[-1]
        tls = ["--cafile", f"{pki}/ca.pem", "--cert", f"{pki}/client.pem", "--key", f"{pki}/client.key", "--insecure",
               "-p", str(lab.TLS)]
        if cores > 1:  # what one core knows of addresses and neighbours the others know
            for _ in range(12):
                subprocess.run(["mosquitto_pub", "-h", ours, *tls, "-t", "a", "-m", "x", "-q", "1"], check=True, timeout=20)
            return
        sub = subprocess.Popen(["mosquitto_sub", "-h", ours, *tls, "-t", "a/#", "-C", "2", "-q", "1", "-i", "six"],
                               stdout=subprocess.PIPE, text=True)
        b.wait(r"\[2001:db8:8::1\]:\d+ on 8883: connected by MQTT 3.1.1: six")
        for host, port, more in ((ours, lab.TLS, tls), (f"{near}%{tap}", lab.PLAIN, [])):
            subprocess.run(["mosquitto_pub", "-h", host, *(more or ["-p", str(port)]), "-t", "a/b", "-m", host, "-q", "1"],
                           check=True, timeout=20)
        assert sub.communicate(timeout=20)[0].split() == [ours, f"{near}%{tap}"]
    finally:
        code = b.stop()
        sh(f"ip link del {tap}")
        assert code == 0
