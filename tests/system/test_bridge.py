# SPDX-License-Identifier: Apache-2.0
"""Proves: a bridge configured with mosquitto's keywords carries messages of every QoS both ways between us and a real
mosquitto, plain and by TLS with certificates, under prefixes, without loops; it keeps what is published while the other
broker is away, and says in $SYS whether it is up; a server with another name or CA gets nothing."""
import os
import subprocess
import time

import paho.mqtt.client as paho
import pytest

import lab
from lab import BROKER, LINUX

OTHER, OTHER_TLS = 1884, 8884


def config(extra):
    return f"network {BROKER}/24\nlistener 1883\nallow_anonymous true\n{extra}"


class Mosquitto:
    def __init__(self, folder, pki):
        self.conf = os.path.join(folder, "mosquitto.conf")
        with open(self.conf, "w") as f:
            f.write(f"user root\nlistener {OTHER} {LINUX}\nallow_anonymous true\nlistener {OTHER_TLS} {LINUX}\n"
                    f"cafile {pki}/ca.pem\ncertfile {pki}/peer.pem\nkeyfile {pki}/peer.key\n"
                    "require_certificate true\nuse_identity_as_username true\nlog_type all\n")
        self.p = None
        self.start()

    def start(self):
        self.p = subprocess.Popen(["mosquitto", "-c", self.conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    def stop(self):
        self.p.terminate()
        self.p.wait(10)


@pytest.fixture
def mosquitto(namespace, pki, tmp_path):
    def run(*args):
        subprocess.run(["openssl", *args], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    if not os.path.exists(f"{pki}/peer.made"):
        run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{pki}/peer.key")
        run("req", "-new", "-key", f"{pki}/peer.key", "-subj", "/CN=peer", "-out", "peer.csr")
        (tmp_path / "ext").write_text(f"subjectAltName=IP:{LINUX},DNS:other.example\n")
        run("x509", "-req", "-in", "peer.csr", "-CA", f"{pki}/ca.pem", "-CAkey", f"{pki}/ca.key", "-CAcreateserial",
            "-days", "30", "-extfile", "ext", "-out", f"{pki}/peer.pem")
        open(f"{pki}/peer.made", "w").close()
    m = Mosquitto(str(tmp_path), pki)
    yield m
    m.stop()


class Client:
    """Subscribed to everything its broker has; `got` is what arrived."""

    def __init__(self, host, port, topics="#"):
        self.got, self.ready = [], False
        self.c = paho.Client(f"t{port}-{time.time()}", protocol=paho.MQTTv311)
        self.c.on_message = lambda c, u, m: self.got.append((m.topic, m.payload, m.qos, m.retain))
        self.c.on_subscribe = lambda *a: setattr(self, "ready", True)
        self.c.on_connect = lambda c, *a: c.subscribe(topics, 2)
        self.c.connect(host, port, 30)
        self.c.loop_start()
        self.until(lambda: self.ready)

    def until(self, what, seconds=15):
        end = time.time() + seconds
        while not what():
            assert time.time() < end, self.got
            time.sleep(0.02)

    def close(self):
        self.c.disconnect()
        self.c.loop_stop()


@pytest.fixture
def clients():
    made = []

    def make(*args, **kwargs):
        made.append(Client(*args, **kwargs))
        return made[-1]
    yield make
    for c in made:
        c.close()


@pytest.mark.parametrize("version", ["mqttv311", "mqttv50"])
def test_both_ways_with_prefixes(start, mosquitto, clients, version):
    b = start(config=config(f"""
connection up
address {LINUX}:{OTHER}
bridge_protocol_version {version}
topic out/# out 2 here/ there/
topic in/# in 2 here/ there/
topic shared/# both 1
restart_timeout 1 2
"""))
    assert lab.ping()
    b.wait("bridge up: connected")
    near, far = clients(BROKER, 1883), clients(LINUX, OTHER)
    for qos in (0, 1, 2):
        near.c.publish("here/out/a", f"n{qos}", qos)
        far.c.publish("there/in/b", f"f{qos}", qos)
    near.c.publish("here/in/b", "not this way", 1)
    near.c.publish("shared/x", "once", 1)
    far.c.publish("shared/y", "once", 1)
    big = b"z" * 300000
    near.c.publish("here/out/big", big, 1)
    far.c.publish("there/in/big", big, 1)
    far.until(lambda: any(g[0] == "there/out/big" for g in far.got))
    near.until(lambda: any(g[0] == "here/in/big" for g in near.got))
    time.sleep(0.5)
    assert [g for g in far.got if g[0] == "there/out/a"] == [("there/out/a", f"n{q}".encode(), q, False) for q in (0, 1, 2)]
    came = [g for g in near.got if g[0] == "here/in/b" and g[1] != b"not this way"]
    assert came == [("here/in/b", f"f{q}".encode(), q, False) for q in (0, 1, 2)]
    assert not any(g[1] == b"not this way" for g in far.got)
    for c, topic in ((near, "shared/x"), (far, "shared/x"), (near, "shared/y"), (far, "shared/y")):
        assert [g[1] for g in c.got if g[0] == topic] == [b"once"], (topic, c.got)
    assert [g[1] for g in far.got if g[0] == "there/out/big"] == [big]
    assert [g[1] for g in near.got if g[0] == "here/in/big"] == [big]


def test_nothing_is_lost_while_the_other_is_away(start, mosquitto, clients):
    b = start(config=config(f"""
connection keep
address {LINUX}:{OTHER}
cleansession false
topic # out 1 "" copy/
restart_timeout 1 1
"""))
    assert lab.ping()
    b.wait("bridge keep: connected")
    near = clients(BROKER, 1883, "$SYS/broker/connection/#")
    near.until(lambda: near.got and near.got[-1][1] == b"1")
    assert near.got[-1][0] == "$SYS/broker/connection/urmqtt.keep/state"
    mosquitto.stop()
    near.until(lambda: near.got[-1][1] == b"0")
    for i in range(200):
        near.c.publish("data", f"{i}", 1)
    b.wait("bridge keep: the connection was refused")
    mosquitto.start()
    far = clients(LINUX, OTHER, "copy/#")
    near.until(lambda: near.got[-1][1] == b"1")
    far.until(lambda: len(far.got) >= 200)
    assert [g[1] for g in far.got] == [f"{i}".encode() for i in range(200)]


def test_retained_and_state_on_the_other_side(start, mosquitto, clients):
    b = start(config=config(f"connection r\naddress {LINUX}:{OTHER}\ntopic keep/# both 1\nrestart_timeout 1 1\n"
                            "remote_clientid me\n"))
    assert lab.ping()
    b.wait("bridge r: connected")
    near = clients(BROKER, 1883)
    near.c.publish("keep/me", "kept", 1, retain=True)
    far = clients(LINUX, OTHER)
    far.until(lambda: ("keep/me", b"kept", 1, True) in far.got or ("keep/me", b"kept", 1, False) in far.got)
    late = clients(LINUX, OTHER, "keep/#")
    late.until(lambda: late.got == [("keep/me", b"kept", 1, True)])
    state = clients(LINUX, OTHER, "$SYS/broker/connection/me/state")
    state.until(lambda: state.got and state.got[-1][1] == b"1")
    b.stop()
    state.until(lambda: state.got[-1][1] == b"0")


@pytest.mark.parametrize("ca, host, insecure, said", [
    ("ca", LINUX, False, "connected"),
    ("other", LINUX, False, "is by a CA that is not configured"),
    ("ca", LINUX + ".", False, "not a name|does not name|no name server"),
])
def test_tls(start, mosquitto, clients, pki, tmp_path, ca, host, insecure, said):
    b = start(config=config(f"listener 8883\ncafile ca.pem\ncertfile server.pem\nkeyfile server.key\n"
                            f"require_certificate true\nuse_identity_as_username true\nallow_anonymous true\n"
                            f"connection s\naddress {host}:{OTHER_TLS}\nbridge_cafile {ca}.pem\n"
                            "bridge_certfile client.pem\nbridge_keyfile client.key\n"
                            f"topic # out 1 \"\" tls/\nrestart_timeout 1 1\n"),
              files=[f"{ca}.pem", "client.pem", "client.key"])
    assert lab.ping()
    b.wait(said)
    if said == "connected":
        near, far = clients(BROKER, 1883), clients(LINUX, OTHER, "tls/#")
        near.c.publish("secret", "by tls", 1)
        far.until(lambda: far.got == [("tls/secret", b"by tls", 1, False)])


def test_a_name_is_asked_for(start, mosquitto, tmp_path):
    dns = subprocess.Popen(["dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces",
                            "-a", LINUX, "-p", "53", f"--address=/other.example/{LINUX}", "--user=root"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        b = start(config=config(f"dns {LINUX}\nconnection n\naddress other.example:{OTHER}\ntopic # out\n"
                                "restart_timeout 1 1\nconnection m\naddress missing.example\ntopic # out\n"))
        assert lab.ping()
        b.wait("bridge n: connected")
        b.wait("bridge m: (there is no such name|the name has no|the name server could not)")
    finally:
        dns.terminate()
        dns.wait(10)


def test_lazy_and_once(start, mosquitto, clients):
    b = start(config=config(f"connection lazy\naddress {LINUX}:{OTHER}\nstart_type lazy\nthreshold 3\nidle_timeout 2\n"
                            "cleansession false\ntopic l/# out 1\nrestart_timeout 1 1\n"
                            f"connection once\naddress {LINUX}:{OTHER + 1}\nstart_type once\ntopic o/# out 1\n"))
    assert lab.ping()
    b.wait("bridge once: the connection was refused")
    near, far = clients(BROKER, 1883), clients(LINUX, OTHER, "l/#")
    time.sleep(2)
    assert not any("bridge lazy: connected" in line for line in b.lines)
    for i in range(3):
        near.c.publish("l/x", f"{i}", 1)
    far.until(lambda: len(far.got) == 3)
    b.wait("bridge lazy: idle")
    assert sum("bridge once" in line for line in b.lines) == 1
