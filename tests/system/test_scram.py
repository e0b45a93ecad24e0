# SPDX-License-Identifier: Apache-2.0
"""CONNECT and re-authentication by SCRAM-SHA-256, against a client of RFC 5802 written here from hashlib and hmac; the
entries of password_file are made by tools/scram-entry. (paho 1.6 has no AUTH.)"""
import base64
import hashlib
import hmac
import os
import struct
import subprocess
import time

import lab
from lab import BROKER, PLAIN, TLS

HERE = f"network {BROKER}/24\nallow_anonymous false\npassword_file pw\n"
CONTINUE, AGAIN = 0x18, 0x19


def entry(user, password):
    p = subprocess.run([f"{lab.ROOT}/tools/scram-entry", user], input=password + "\n", text=True, capture_output=True,
                       timeout=30, check=True)
    return p.stdout


def props(*pairs):
    body = b"".join(bytes([kind]) + lab.utf8(data) for kind, data in pairs)
    return lab.varint(len(body)) + body


def read_props(body):
    """Method and data of a CONNACK or AUTH behind its reason; every property that may be there is walked over."""
    n, i = 0, 0
    while True:
        n |= (body[i] & 127) << 7 * i
        i += 1
        if not body[i - 1] & 128:
            break
    found, end = {}, i + n
    while i < end:
        kind, i = body[i], i + 1
        size = {0x21: 2, 0x22: 2, 0x13: 2, 0x27: 4, 0x11: 4}.get(kind, 1)
        if kind in (0x12, 0x15, 0x16, 0x1a, 0x1c, 0x1f):
            size = struct.unpack_from(">H", body, i)[0]
            i += 2
        found[kind], i = body[i:i + size], i + size
    return found


class Scram:
    """The client's half: sends, hears, and checks the server's proof."""

    def __init__(self, user, password, tls=None, header="n,,", port=None):
        self.raw = lab.Raw(tls, port=port)
        self.user, self.password, self.header = user, password, header

    def first(self):
        self.nonce = base64.b64encode(os.urandom(18)).decode()
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        self.bare = f"n={name},r={self.nonce}"
        return (self.header + self.bare).encode()

    def connect(self, client="scram", username=None, method="SCRAM-SHA-256"):
        flags = 2 | (0x80 if username else 0)
        body = lab.utf8("MQTT") + bytes([5, flags, 0, 60]) + props((0x15, method), (0x16, self.first())) + lab.utf8(client)
        self.raw.send(lab.packet(0x10, body + (lab.utf8(username) if username else b"")))
        return self

    def auth(self, reason, data):
        self.raw.send(lab.packet(0xf0, bytes([reason]) + props((0x15, "SCRAM-SHA-256"), (0x16, data))))
        return self

    def challenge(self):
        first, body = self.raw.receive()
        assert first == 0xf0 and body[0] == CONTINUE, (first, body)
        got = read_props(body[1:])
        assert got[0x15] == b"SCRAM-SHA-256"
        self.said = got[0x16].decode()
        self.fields = dict(f.split("=", 1) for f in self.said.split(","))
        assert self.fields["r"].startswith(self.nonce) and len(self.fields["r"]) > len(self.nonce) + 20
        return self

    def final(self, spoil=0):
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(self.fields["s"]),
                                     int(self.fields["i"]))
        key, server = (hmac.digest(salted, x, "sha256") for x in (b"Client Key", b"Server Key"))
        without = f"c={base64.b64encode(self.header.encode()).decode()},r={self.fields['r']}"
        message = f"{self.bare},{self.said},{without}".encode()
        proof = bytes(a ^ b ^ spoil for a, b in zip(key, hmac.digest(hashlib.sha256(key).digest(), message, "sha256")))
        self.server = "v=" + base64.b64encode(hmac.digest(server, message, "sha256")).decode()
        return f"{without},p={base64.b64encode(proof).decode()}".encode()

    def proved(self, kind, reason_at=0):
        first, body = self.raw.receive()
        assert first == kind and body[reason_at] == 0, (first, body)
        got = read_props(body[reason_at + 1:])
        assert got[0x15] == b"SCRAM-SHA-256" and got[0x16].decode() == self.server, got
        return self

    def enter(self, **more):
        self.connect(**more).challenge().auth(CONTINUE, self.final())
        return self.proved(0x20, 1)

    def again(self):
        self.auth(AGAIN, self.first()).challenge().auth(CONTINUE, self.final())
        return self.proved(0xf0)

    def refused(self, reason=0x87):
        """CONNACK with this reason, and the end."""
        first, body = self.raw.receive()
        assert first == 0x20 and body[1] == reason, (first, body)
        assert self.raw.receive() is None


def write(folder, **files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def test_exchange(start, pki, tmp_path):
    """Users come in plain and by TLS and are who they are for the ACL; passwords beside them; nobody else does."""
    write(tmp_path / "conf", pw=entry("alice", "pencil") + entry("a,b=c", "söcret") + entry("other", "x"),
          acl="user alice\ntopic readwrite hers\n")
    subprocess.run(["mosquitto_passwd", "-b", str(tmp_path / "conf/pw"), "bob", "secret"], check=True)
    b = start(config=HERE + f"acl_file acl\nlistener {PLAIN}\nlistener {TLS}\ncertfile server.pem\nkeyfile server.key\n")
    tls = lab.context(pki, name=None)
    for more in ({}, {"tls": tls}, {"header": "y,,"}):
        c = Scram("alice", "pencil", **more).enter(username="alice")
        for topic in ("hers", "his"):
            c.raw.send(lab.subscribe(topic))
            first, body = c.raw.receive()
            assert first == 0x90, body
        c.raw.send(lab.publish("his", b"no", 1, 1))
        assert c.raw.receive()[1][2] == 0x87
        c.raw.send(lab.publish("hers", b"yes", 1, 2))
        assert {c.raw.receive()[0] & 0xf0 for _ in range(2)} == {0x30, 0x40}
        c.raw.close()
    Scram("a,b=c", "söcret").enter().raw.close()
    for password, code in (("secret", 0), ("other", 5)):
        p = subprocess.run(["mosquitto_pub", "-h", BROKER, "-u", "bob", "-P", password, "-t", "t", "-m", "x"],
                           capture_output=True, timeout=20)
        assert p.returncode == code
    p = subprocess.run(["mosquitto_pub", "-h", BROKER, "-u", "alice", "-P", "pencil", "-t", "t", "-m", "x"],
                       capture_output=True, timeout=20)
    assert p.returncode == 5  # her entry is for SCRAM alone
    assert b.stop() == 0


def test_refusals(start, tmp_path):
    """Wrong password, wrong proof, unknown user, replay: one answer, after the same second; the rest at once."""
    write(tmp_path / "conf", pw=entry("alice", "pencil") + entry("carol", "x"))
    b = start(config=HERE + f"listener {PLAIN}\n")
    old = Scram("alice", "pencil").connect().challenge()
    replayed = old.final()
    old.auth(CONTINUE, replayed).proved(0x20, 1)
    for user, password, make in (("alice", "Pencil", lambda c: c.final()), ("alice", "pencil", lambda c: c.final(1)),
                                 ("nobody", "pencil", lambda c: c.final()), ("alice", "pencil", lambda c: replayed)):
        c = Scram(user, password).connect(client="x").challenge()
        start_at = time.monotonic()
        c.auth(CONTINUE, make(c)).refused()
        assert 0.9 < time.monotonic() - start_at < 3
    salts = {Scram("nobody", "x").connect(client=f"n{i}").challenge().fields["s"] for i in range(3)}
    salts |= {Scram("nobody2", "x").connect(client="n").challenge().fields["s"]}
    assert len(salts) == 2, "a stand-in salt is a user's own"
    Scram("alice", "pencil").connect(username="carol").refused()
    Scram("alice", "pencil", header="p=tls-exporter,,").connect().refused()
    Scram("alice", "pencil", header="n,a=carol,").connect().refused()
    for method in ("SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "x"):
        Scram("alice", "pencil").connect(method=method).refused(0x8c)
    c = Scram("alice", "pencil").connect().challenge()
    c.raw.send(lab.PING)
    c.refused(0x82)
    assert b.stop() == 0


def test_again(start, tmp_path):
    """Re-authentication on a live connection, while messages flow; what fails ends it by 0x87 and its will is sent."""
    write(tmp_path / "conf", pw=entry("alice", "pencil") + entry("carol", "x"))
    b = start(config=HERE + f"listener {PLAIN}\n")
    c = Scram("alice", "pencil").enter()
    for _ in range(3):
        c.again()
        c.raw.send(lab.PING)
        assert c.raw.receive()[0] == 0xd0
    c.auth(AGAIN, c.first()).challenge()
    c.raw.send(lab.publish("t", b"meanwhile", 1))
    assert c.raw.receive()[0] == 0x40
    c.auth(CONTINUE, c.final(1))
    assert c.raw.told(0x87) and c.raw.receive() is None
    c = Scram("alice", "pencil").enter()
    c.user = "carol"
    c.auth(AGAIN, c.first())
    assert c.raw.told(0x87) and c.raw.receive() is None
    assert b.stop() == 0


def test_storm(start, tmp_path):
    """64 exchanges left lying: who is in stays in, who comes later comes in, and their ends leave nothing behind."""
    write(tmp_path / "conf", pw=entry("alice", "pencil"))
    b = start(config=HERE + f"listener {PLAIN}\n")
    c = Scram("alice", "pencil").enter()
    idle = [Scram("alice", "pencil").connect(client=f"s{i}") for i in range(64)]
    c.raw.send(lab.PING)
    assert c.raw.receive()[0] == 0xd0
    for i in idle:
        i.raw.kill()
    Scram("alice", "pencil").enter(client="after")
    assert b.stop() == 0


def test_check(tmp_path):
    """--check names the malformed entry by its line and never shows a key."""
    good = entry("alice", "pencil")
    write(tmp_path / "conf", pw=good + good.replace("alice", "b").replace("$10000$", "$100$") +
          good.replace("alice", "c").rstrip()[:-4] + "\n",
          **{"urmqtt.conf": f"listener {PLAIN}\nallow_anonymous true\npassword_file pw\n"})
    p = subprocess.run([f"{lab.BUILD}/asan/urmqtt", "--config", str(tmp_path / "conf"), "--check"], capture_output=True,
                       text=True, timeout=60)
    out = p.stdout + p.stderr
    assert p.returncode != 0
    assert "pw:2: error: the iterations of $scram-sha-256$" in out, out
    assert "pw:3: error: the keys of $scram-sha-256$" in out and "pw:1" not in out, out
    assert good.split("$")[4] not in out


def test_entry():
    """tools/scram-entry refuses what no client could prove, and its keys are RFC 7677's for its user."""
    for user, password in (("", "x"), ("a:b", "x"), ("a", ""), ("a\u00aa", "x"), ("a", "\x07")):
        p = subprocess.run([f"{lab.ROOT}/tools/scram-entry", user], input=password + "\n", text=True, capture_output=True,
                           timeout=30)
        assert p.returncode != 0, (user, password)
    code = f"import importlib.machinery as m; s = m.SourceFileLoader('s', '{lab.ROOT}/tools/scram-entry').load_module(); "
    code += "print(s.entry('user', 'pencil', 4096, __import__('base64').b64decode('W22ZaJ0SNY7soEsUEjb6gQ==')), "
    code += "s.saslprep('I\\xadX') == 'IX', s.saslprep('\\xaa') == 'a', s.saslprep('\\u2168') == 'IX')"
    p = subprocess.run(["/usr/bin/python3", "-B", "-W", "ignore", "-c", code], text=True, capture_output=True, timeout=30)
    assert p.stdout.split() == ["user:$scram-sha-256$4096$W22ZaJ0SNY7soEsUEjb6gQ==$"
                                "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=$"
                                "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=", "True", "True", "True"], p.stderr
