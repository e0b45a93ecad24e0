# SPDX-License-Identifier: Apache-2.0
"""A network namespace of our own with a TAP device, the hosted broker on it, a PKI, and a client that speaks MQTT byte
by byte. Addresses: 10.9.0.1 is Linux, 10.9.0.2 is the broker; they exist inside the namespace only."""
import ctypes
import os
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import wire

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("B", "build"))
CORES = int(os.environ.get("CORES", "1"))  # of every broker: CORES=2 make system-test
LINUX, BROKER = "10.9.0.1", "10.9.0.2"
PLAIN, TLS = 1883, 8883
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000

CONFIG = f"""
network {BROKER}/24
allow_anonymous true
listener {PLAIN}
listener {TLS}
cafile ca.pem
certfile server.pem
keyfile server.key
require_certificate true
use_identity_as_username true
"""


def sh(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def enter_namespace():
    """The whole test process moves into a fresh network namespace; its loopback is brought up for other tests."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.geteuid(), os.getegid()
    flags = CLONE_NEWNET | (0 if user == 0 else CLONE_NEWUSER)
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare: a network namespace is needed (run as root)")
    if user != 0:
        open("/proc/self/setgroups", "w").write("deny")
        open("/proc/self/uid_map", "w").write(f"0 {user} 1")
        open("/proc/self/gid_map", "w").write(f"0 {group} 1")
    sh("ip link set lo up")


def make_tap(name="tap0", address=LINUX, queues=False):
    sh(f"ip tuntap add dev {name} mode tap vnet_hdr {'multi_queue' if queues else ''}")
    if address:
        sh(f"ip addr add {address}/24 dev {name}")
    sh(f"ip link set {name} up")


class BadWire:
    """In a `with`: 10.9.0.1 moves from tap0 to the far end of a wire.py; the broker's TAP is `tap`. Without properties:
    2 % lost, 1 % doubled, 5 % reordered, 0.5 % damaged by lossy.py."""
    tap = "tap1"

    def __init__(self, kind="python", seed=1, **properties):
        self.wire = wire.Wire(kind, seed, **(properties or {"loss": 2, "duplicate": 1, "reorder": 5, "damage": 0.5}))

    def __enter__(self):
        self.wire.__enter__()
        near, far = self.wire.left, self.wire.right
        sh("ip tuntap add dev tap1 mode tap vnet_hdr; ip link add br0 type bridge")
        sh(f"ip addr flush dev tap0; ip link set tap0 down; ip addr add {LINUX}/24 dev {far}")
        for name in ("tap1", near):
            sh(f"ip link set {name} master br0 up")
        sh("ip link set br0 up")
        return self

    def __exit__(self, *_):
        for name in ("br0", "tap1"):
            sh(f"ip link del {name}")
        self.wire.__exit__()
        sh(f"ip addr add {LINUX}/24 dev tap0; ip link set tap0 up")


def make_pki(folder):
    """ca, other (an unknown CA), server, client, stranger (of the other CA): P-256, by openssl."""
    def run(*args):
        subprocess.run(["openssl", *args], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def key(name):
        run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")

    for ca in ("ca", "other"):
        key(ca)
        run("req", "-x509", "-new", "-key", f"{ca}.key", "-days", "30", "-subj", f"/CN=test {ca}", "-out", f"{ca}.pem")
    for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        key(name)
        run("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
        with open(os.path.join(folder, "ext"), "w") as f:
            f.write(f"subjectAltName=IP:{BROKER},DNS:{name}\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
            "-days", "30", "-extfile", "ext", "-out", f"{name}.pem")


class Broker:
    """build/asan/urmqtt on a TAP device. Any line of a sanitizer or an assertion fails the test that stops it."""

    def __init__(self, folder, pki, config=CONFIG, tap="tap0", memory=256, binary=os.environ.get("BINARY", "asan"), ready=None,
                 seconds=600, files=(), cores=CORES, disk=None):
        self.conf = os.path.join(folder, "conf")
        self.pki = pki
        os.makedirs(self.conf, exist_ok=True)
        if config is not None:
            with open(os.path.join(self.conf, "urmqtt.conf"), "w") as f:
                f.write(config)
        for name in ("ca.pem", "server.pem", "server.key", *files):
            with open(os.path.join(pki, name)) as source, open(os.path.join(self.conf, name), "w") as f:
                f.write(source.read())
        self.lines = []
        command = [os.path.join(BUILD, binary, "urmqtt"), "--tap", tap, "--memory", str(memory), "--seconds", str(seconds),
                   "--cores", str(cores)]
        if config is not None:
            command += ["--config", self.conf]
        if disk is not None:
            command += ["--disk", disk]
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            self.wait(ready or ("network 0: 10" if config is not None else "no configuration"))
        except AssertionError:
            self.stop()
            raise

    def read(self):
        for line in self.p.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait(self, pattern, seconds=20):
        end = time.time() + seconds
        while time.time() < end:
            for line in self.lines:
                if re.search(pattern, line):
                    return line
            if self.p.poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in {self.lines}")

    def type(self, text):
        """A line on its console."""
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()

    def configure(self, text):
        with open(os.path.join(self.conf, "urmqtt.conf"), "w") as f:
            f.write(text)

    def cut(self):
        """SIGKILL: nothing is said, nothing is written any more."""
        self.p.kill()
        self.p.wait(20)

    def stop(self):
        """SIGTERM; returns the exit code after checking that nothing was reported."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            code = self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            raise
        self.reader.join(5)
        text = "\n".join(self.lines)
        assert "Sanitizer" not in text and "runtime error" not in text and "assertion failed" not in text, text
        return code


# --- packets

def varint(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if n == 0:
            return out


def utf8(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack(">H", len(s)) + s


def packet(first, body):
    return bytes([first]) + varint(len(body)) + body


def connect(client_id="raw", version=5, clean=True, keep_alive=60, will=None, expiry=None):
    flags = (2 if clean else 0) | (0x0c if will else 0)
    body = utf8("MQTT") + bytes([version, flags]) + struct.pack(">H", keep_alive)
    if version == 5:
        props = b"" if expiry is None else b"\x11" + struct.pack(">I", expiry)
        body += varint(len(props)) + props
    body += utf8(client_id)
    if will:
        body += (b"\0" if version == 5 else b"") + utf8(will[0]) + utf8(will[1])
    return packet(0x10, body)


def publish(topic, payload, qos=0, pid=1, retain=False, version=5, dup=False):
    body = utf8(topic) + (struct.pack(">H", pid) if qos else b"") + (b"\0" if version == 5 else b"") + payload
    return packet(0x30 | qos << 1 | retain | dup << 3, body)


def subscribe(topic, qos=2, pid=1, version=5):
    return packet(0x82, struct.pack(">H", pid) + (b"\0" if version == 5 else b"") + utf8(topic) + bytes([qos]))


PING, DISCONNECT = b"\xc0\0", b"\xe0\0"


class Raw:
    """A socket that sends what it is told and takes packets apart."""

    def __init__(self, tls=None, receive_buffer=None, port=None):
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(15)
        s.connect((BROKER, port or (TLS if tls else PLAIN)))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s = tls.wrap_socket(s) if tls else s
        self.buffer = b""

    def send(self, data):
        self.s.sendall(data)
        return self

    def open(self, *args, **kwargs):
        self.send(connect(*args, **kwargs))
        first, body = self.receive()
        assert first == 0x20, (first, body)
        self.connack = body
        return self

    def receive(self):
        """(first byte, body) of the next packet; None when the broker has closed."""
        while True:
            p = self.take()
            if p:
                return p
            try:
                data = self.s.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                return None
            if not data:
                return None
            self.buffer += data

    def take(self):
        n, shift, i = 0, 0, 1
        while True:
            if i >= len(self.buffer):
                return None
            n |= (self.buffer[i] & 127) << shift
            shift += 7
            i += 1
            if not self.buffer[i - 1] & 128:
                break
        if len(self.buffer) < i + n:
            return None
        first, body = self.buffer[0], self.buffer[i:i + n]
        self.buffer = self.buffer[i + n:]
        return first, body

    def told(self, reason):
        """True when what comes next is a DISCONNECT with this reason (perhaps with a text) and nothing else."""
        first, body = self.receive()
        return first == 0xe0 and body[0] == reason

    def silent(self, seconds=0.3):
        return not self.buffer and not select.select([self.s], [], [], seconds)[0]

    def close(self):
        self.s.close()

    def kill(self):
        """RST instead of FIN."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()


def context(pki, name="client", ca="ca"):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.load_verify_locations(os.path.join(pki, f"{ca}.pem"))
    if name:
        c.load_cert_chain(os.path.join(pki, f"{name}.pem"), os.path.join(pki, f"{name}.key"))
    c.check_hostname = False
    return c


def ping(seconds=10.0):
    """ICMP echoes until one comes back: True. (A TAP that was just opened takes a second to have a carrier.)"""
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    head = struct.pack(">BBHHH", 8, 0, 0, os.getpid() & 0xffff, 1)
    data = b"urmqtt" * 5
    total = sum(struct.unpack(f">{(len(head) + len(data)) // 2}H", head + data))
    total = (total >> 16) + (total & 0xffff)
    total = ~(total + (total >> 16)) & 0xffff
    end = time.time() + seconds
    while time.time() < end:
        s.sendto(struct.pack(">BBHHH", 8, 0, total, os.getpid() & 0xffff, 1) + data, (BROKER, 0))
        while select.select([s], [], [], 0.3)[0]:
            answer = s.recv(2048)
            if answer[20] == 0 and answer[28:] == data:
                return True
    return False
