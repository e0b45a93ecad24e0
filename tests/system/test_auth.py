# SPDX-License-Identifier: Apache-2.0
"""Who may come in and what he may do, with mosquitto's own files and clients: passwords by mosquitto_passwd, names out of
certificates, and one acl_file given to mosquitto 2.0.11 and to us, whose answers to a generated set of operations are
the same one by one."""
import os
import random
import socket
import subprocess
import time

import pytest

import lab
from lab import BROKER, PLAIN, TLS

HERE = f"network {BROKER}/24\n"


def passwords(path, users, iterations=None):
    for i, (user, password) in enumerate(users.items()):
        more = ["-I", str(iterations)] if iterations else []
        subprocess.run(["mosquitto_passwd", *(["-c"] if i == 0 else []), *more, "-b", path, user, password], check=True)


def attempt(args, *more, port=PLAIN, host=BROKER):
    """mosquitto_pub's exit: 0 = in, 5 = not authorised, otherwise something else."""
    p = subprocess.run(["mosquitto_pub", "-h", host, "-p", str(port), "-t", "t", "-m", "x", *args, *more], timeout=20,
                       capture_output=True, text=True)
    return p.returncode


@pytest.fixture
def conf(tmp_path):
    folder = tmp_path / "conf"
    folder.mkdir()
    return str(folder)


def test_password_file(start, conf):
    """As mosquitto_passwd writes it; 3.1.1 and 5.0; anonymous as allow_anonymous says."""
    passwords(f"{conf}/pw", {"alice": "secret", "bob b": "x" * 200, "ümlaut": "pä:ss"})
    b = start(config=HERE + f"listener {PLAIN}\npassword_file /etc/mosquitto/pw\n")
    for version in ("mqttv311", "mqttv5"):
        for user, password, in_ in (("alice", "secret", True), ("bob b", "x" * 200, True), ("ümlaut", "pä:ss", True),
                                    ("alice", "Secret", False), ("alice", "", False), ("nobody", "secret", False)):
            code = attempt(["-u", user, "-P", password], "-V", version)
            assert (code == 0) == in_, (user, password, code)
            assert code in ((0,) if in_ else (5, 135)), code
        assert attempt([], "-V", version) in (5, 135)
    assert b.stop() == 0


def argon2id(password, *costs):
    """A hash as mosquitto_passwd of 2.1 writes it, by Debian's argon2 command."""
    costs = costs or ("-k", "47104", "-t", "1", "-p", "1", "-l", "64")
    return subprocess.run(["argon2", os.urandom(24).hex(), "-id", "-e", *costs], input=password, text=True, check=True,
                          capture_output=True).stdout.strip()


def test_argon2id(start, conf):
    """Hashes of mosquitto 2.1's costs and of others; wrong passwords and unknown names; a client that is there is answered
    while the hashing goes on."""
    users = {"a": argon2id("secret"), "b": argon2id("x" * 100, "-k", "600", "-t", "3", "-p", "4", "-l", "32")}
    passwords(f"{conf}/pw", {"old": "p"})
    with open(f"{conf}/pw", "a") as f:
        f.writelines(f"{user}:{encoded}\n" for user, encoded in users.items())
    b = start(config=HERE + f"listener {PLAIN}\nallow_anonymous true\npassword_file pw\n")
    there = lab.Raw().open("there")
    wrong = subprocess.Popen(["mosquitto_pub", "-h", BROKER, "-t", "t", "-m", "x", "-u", "a", "-P", "Secret"],
                             stderr=subprocess.DEVNULL)
    pings = []
    while wrong.poll() is None:
        before = time.time()
        there.send(b"\xc0\x00")
        assert there.receive() == (0xd0, b"")
        pings.append(time.time() - before)
        time.sleep(0.01)
    assert wrong.returncode == 5 and len(pings) > 20 and sorted(pings)[len(pings) // 2] < 0.05, (wrong.returncode, pings)
    for user, password, code in (("a", "secret", 0), ("b", "x" * 100, 0), ("old", "p", 0), ("b", "x" * 99, 5),
                                 ("old", "q", 5), ("nobody", "secret", 5)):
        assert attempt(["-u", user, "-P", password]) == code, user
    there.s.close()
    assert b.stop() == 0


def test_argon2id_wants_memory(start, conf):
    """Too little for the arena: said with file, line and sizes, by --check too. After a start without one a reload says so."""
    with open(f"{conf}/pw", "w") as f:
        f.write(f"# by argon2\na:{argon2id('x', '-k', '8')}\nb:{argon2id('x')}\n")
    with open(f"{conf}/urmqtt.conf", "w") as f:
        f.write(HERE + f"listener {PLAIN}\npassword_file pw\n")
    p = subprocess.run([f"{lab.BUILD}/asan/urmqtt", "--config", conf, "--memory", "64", "--check"], capture_output=True,
                       text=True, timeout=60)
    assert p.returncode != 0
    assert "pw:3: error: a hash of argon2id wants 47104 KiB of memory beside 24 MiB" in p.stdout + p.stderr
    hashes = open(f"{conf}/pw").read()
    passwords(f"{conf}/pw", {"c": "p"})
    b = start(config=HERE + f"listener {PLAIN}\npassword_file pw\n")
    with open(f"{conf}/pw", "w") as f:
        f.write(hashes)
    b.type("reload")
    b.wait("pw:3: error: a hash of argon2id wants 47104 KiB of memory, and 0 KiB were set aside at start: restart")
    b.wait("nothing was changed")
    assert attempt(["-u", "c", "-P", "p"]) == 0
    assert b.stop() == 0


def test_check_names_bad_lines(conf):
    """--check says file and line of every bad line and fails."""
    with open(f"{conf}/urmqtt.conf", "w") as f:
        f.write(f"listener {PLAIN}\nallow_anonymous true\npassword_file pw\nacl_file acl\n")
    with open(f"{conf}/pw", "w") as f:
        f.write("# x\na:$7$101$MTIz$MTIz\n")
    with open(f"{conf}/acl", "w") as f:
        f.write("topic read a\n\ntopic reed b\nuser\n")
    p = subprocess.run([f"{lab.BUILD}/asan/urmqtt", "--config", conf, "--check"], capture_output=True, text=True, timeout=60)
    out = p.stdout + p.stderr
    assert p.returncode != 0, out
    for line in ("pw:2: error: the hash is not base64", "acl:3: error: read, write, readwrite or deny is wanted, not \"reed\"",
                 "acl:4: error: the user's name is missing"):
        assert line in out, out


def test_client_ids(start, conf):
    passwords(f"{conf}/pw", {"dev-1": "p"})
    b = start(config=HERE + f"listener {PLAIN}\nallow_anonymous true\npassword_file pw\nclientid_prefixes dev-\n"
              f"listener {PLAIN + 1}\nuse_username_as_clientid true\n")
    assert attempt(["-i", "dev-7"]) == 0
    assert attempt(["-i", "other"]) == 5
    assert attempt(["-u", "dev-1", "-P", "p", "-i", "dev-x"], port=PLAIN + 1) == 0
    assert attempt(["-i", "dev-x"], port=PLAIN + 1) == 5
    assert b.stop() == 0


def test_names_of_certificates(start, pki, conf):
    """CN, whole subject and SAN as user name, seen through an acl_file with %u."""
    with open(f"{conf}/acl", "w") as f:
        f.write("pattern readwrite %u/#\n")
    tls = "cafile ca.pem\ncertfile server.pem\nkeyfile server.key\nrequire_certificate true\n"
    b = start(config=HERE + f"acl_file acl\nlistener {TLS}\n{tls}use_identity_as_username true\nlistener {TLS + 1}\n{tls}"
              f"use_subject_as_username true\nlistener {TLS + 2}\n{tls}use_san_as_username dns\n")
    cert = ["-V", "mqttv5", "-q", "1", "--cafile", f"{pki}/ca.pem", "--cert", f"{pki}/client.pem", "--key",
            f"{pki}/client.key"]
    for port, name in ((TLS, "client"), (TLS + 1, "CN=client"), (TLS + 2, "client")):
        for topic, good in ((f"{name}/x", True), ("other/x", False)):
            p = subprocess.run(["mosquitto_sub", "-h", BROKER, "-p", str(port), *cert, "-t", topic, "-W", "2", "-C", "1",
                                "-E"], timeout=20)
            assert p.returncode == 0
            p = subprocess.Popen(["stdbuf", "-oL", "mosquitto_sub", "-d", "-h", BROKER, "-p", str(port), *cert, "-t",
                                  topic, "-W", "3", "-C", "1", "-F", "GOT"], stdout=subprocess.PIPE, text=True)
            for line in p.stdout:
                if line.startswith("Subscribed"):
                    break
            subprocess.run(["mosquitto_pub", "-h", BROKER, "-p", str(port), *cert, "-t", topic, "-m", "x"],
                           capture_output=True, timeout=20)
            assert ("GOT" in p.stdout.read()) == good, (port, topic)
            p.wait(10)
    assert b.stop() == 0


# --- the same acl_file for mosquitto and for us

class Client:
    """MQTT 5.0 by hand: enough to see the reason of each PUBACK and each delivery."""

    def __init__(self, address, user, client_id):
        self.s = socket.create_connection(address, timeout=10)
        self.got = []
        flags, tail = 2, b""
        if user is not None:
            flags |= 0xC0
            tail = lab.utf8(user) + lab.utf8("p")
        self.s.sendall(lab.packet(0x10, lab.utf8("MQTT") + bytes([5, flags, 0, 0, 0]) + lab.utf8(client_id) + tail))
        kind, body = self.read()
        assert kind == 0x20 and body[1] == 0, (user, client_id, body)

    def exact(self, n):
        out = b""
        while len(out) < n:
            piece = self.s.recv(n - len(out))
            assert piece, "the connection ended"
            out += piece
        return out

    def read(self):
        kind = self.exact(1)[0]
        n, shift = 0, 0
        while True:
            b = self.exact(1)[0]
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return kind & 0xF0, self.exact(n)

    def subscribe(self, topic):
        self.s.sendall(lab.packet(0x82, b"\0\1\0" + lab.utf8(topic) + b"\0"))
        kind, body = self.read()
        assert kind == 0x90
        return body[-1]

    def publish(self, topic):
        self.s.sendall(lab.packet(0x32, lab.utf8(topic) + b"\0\1\0" + topic.encode()))
        while True:
            kind, body = self.read()
            if kind == 0x40:
                return (body[2] if len(body) > 2 else 0) >= 0x80
            self.keep(body)

    def keep(self, body):
        n = body[0] << 8 | body[1]
        self.got.append(body[2:2 + n].decode())

    def drain(self):
        """What has been delivered until a PINGRESP stands behind it: topics, sorted."""
        self.s.sendall(b"\xc0\0")
        while True:
            kind, body = self.read()
            if kind == 0xD0:
                got, self.got = sorted(self.got), []
                return got
            self.keep(body)


USERS = {"u1": "p", "u2": "p", "a b": "p", "w+": "p", "h#": "p"}
WHO = [(None, "c1"), ("u1", "c1"), ("u1", "u2"), ("u2", "c2"), ("a b", "c+"), ("w+", "c3"), ("h#", "c1"), ("u2", "x")]


def random_acl(r):
    words = ["a", "b", "+", "%u", "%c", "u1", "c1", "", "$x", "u2"]
    lines = []
    for _ in range(r.randint(0, 14)):
        if r.random() < 0.25:
            lines.append("user " + r.choice([*USERS, "nobody"]))
            continue
        levels = [r.choice(words) for _ in range(r.randint(1, 4))]
        if r.random() < 0.4:
            levels[-1] = "#"
        filter = "/".join(levels) or "#"
        mode = r.choice(["read ", "write ", "readwrite ", "deny ", ""])
        lines.append(r.choice(["topic ", "pattern "]) + mode + filter)
    return "\n".join(lines) + "\n"


def random_topics(r):
    words = ["a", "b", "u1", "u2", "c1", "c2", "", "$x", "a b", "%u"]
    topics = set()
    while len(topics) < 14:
        topic = "/".join(r.choice(words) for _ in range(r.randint(1, 4)))
        if topic:
            topics.add(topic)
    return sorted(topics) + ["$SYS/x", "$share/x", "a", "a/b"]


def answers(address, topics):
    """Every client publishes every topic while all listen to everything."""
    clients = [Client(address, user, f"{cid}") for user, cid in
               [(u, c) for i, (u, c) in enumerate(WHO) if c not in [x[1] for x in WHO[:i]]]]
    out = []
    for c in clients:
        for f in ("#", "$x/#"):
            out.append(("granted", c.subscribe(f)))
    for i, c in enumerate(clients):
        for topic in topics:
            out.append(("denied", i, topic, c.publish(topic)))
            for k, other in enumerate(clients):
                out.append((i, topic, k, other.drain()))
    for c in clients:
        c.s.close()
    return out


@pytest.mark.parametrize("seed", range(int(os.environ.get("ACL_SEEDS", "6"))))
def test_same_as_mosquitto(start, conf, tmp_path, seed):
    r = random.Random(seed)
    acl, topics = random_acl(r), random_topics(r)
    passwords(f"{conf}/pw", USERS)
    with open(f"{conf}/acl", "w") as f:
        f.write(acl)
    rules = "allow_anonymous true\npassword_file {0}pw\nacl_file {0}acl\n"
    b = start(config=HERE + f"listener {PLAIN}\n" + rules.format(""))
    with open(tmp_path / "m.conf", "w") as f:
        f.write("user root\nlistener 21883 127.0.0.1\n" + rules.format(conf + "/"))
    m = subprocess.Popen(["mosquitto", "-c", str(tmp_path / "m.conf")], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    try:
        end = time.time() + 10
        while time.time() < end:
            try:
                socket.create_connection(("127.0.0.1", 21883), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        theirs = answers(("127.0.0.1", 21883), topics)
        ours = answers((BROKER, PLAIN), topics)
    finally:
        m.terminate()
        m.wait(10)
    for mine, other in zip(ours, theirs):
        assert mine == other, f"we, then mosquitto\n{acl}"
    assert len(ours) == len(theirs)
    assert b.stop() == 0
