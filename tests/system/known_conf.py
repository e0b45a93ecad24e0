# SPDX-License-Identifier: Apache-2.0
"""The three kinds of mosquitto.conf that are in the field (tests/system/data): laid out on this machine as their users
have them, packed by `urmqtt-stamp ISO --mosquitto`, and what a client of each may do. For tests hosted and in QEMU."""
import os
import re
import shutil
import struct
import subprocess

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
USERS = {"homeassistant": "secret", "addons": "addons' own", "sensor": "s3nsor"}
# As the Home Assistant add-on writes it, and what its users add.
ACL = """user addons
topic readwrite #

user homeassistant
topic readwrite #

user sensor
topic write sensors/+/state
topic read command/sensor
pattern readwrite own/%u/#
"""
# listener -> (transport, TLS)
LISTENERS = {1883: ("tcp", False), 1884: ("websockets", False), 8883: ("tcp", True), 8884: ("websockets", True)}


def lay_out(folder, name, certificates=None):
    """The configuration of this kind and the files it names below `folder`; returns the path of mosquitto.conf.
    certificates: (CA, server certificate, key)."""
    folder = str(folder)
    path = os.path.join(folder, "mosquitto.conf")
    with open(os.path.join(DATA, name, "mosquitto.conf")) as source, open(path, "w") as f:
        f.write(source.read().replace("@", folder))
    if name == "debian":
        os.mkdir(os.path.join(folder, "conf.d"))
        with open(os.path.join(folder, "conf.d/README"), "w") as f:
            f.write("Any files placed in this directory that have a .conf ending will be loaded as config files.\n")
    if name == "homeassistant":
        for sub in ("ssl", "share/mosquitto"):
            os.makedirs(os.path.join(folder, sub))
        for source, to in zip(certificates, ("ca.crt", "server.crt", "server.key")):
            shutil.copy(source, os.path.join(folder, "ssl", to))
        with open(os.path.join(folder, "acl"), "w") as f:
            f.write(ACL)
        for i, (user, password) in enumerate(USERS.items()):
            subprocess.run(["mosquitto_passwd", *(["-c"] if i == 0 else []), "-b", os.path.join(folder, "pw"), user,
                            password], check=True)
        with open(os.path.join(folder, "share/mosquitto/own.conf"), "w") as f:
            f.write("max_inflight_messages 40\n")
    return path


def pack(stamp, iso, conf, out):
    """Stamps a copy of `iso`; returns what the program said, a warning a line."""
    p = subprocess.run([stamp, str(iso), "--mosquitto", str(conf), "-o", str(out)], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and p.stderr == "", p.stderr
    return p.stdout


def fates(said):
    return dict(re.findall(r"^  (\S+) +(kept|mapped|ignored|refused|unknown)", said, re.M))


def bare_iso(stamp, folder):
    """As much of an ISO as the stamp looks at: one empty slot."""
    slot, path = os.path.join(str(folder), "slot"), os.path.join(str(folder), "in.iso")
    subprocess.run([stamp, "--empty-slot", slot], check=True, stdout=subprocess.DEVNULL)
    with open(slot, "rb") as source, open(path, "wb") as f:
        f.write(b"\x11" * 6144 + source.read())
    return path


def unpack(iso, folder):
    """The slot's files of a bare_iso, as a folder for `urmqtt --config`."""
    with open(iso, "rb") as f:
        data = f.read()
    length = struct.unpack_from("<I", data, 6144 + 16)[0]
    os.makedirs(folder)
    subprocess.run(["tar", "-xf", "-", "-C", str(folder)], input=data[6144 + 512:6144 + 512 + length], check=True)


class Peer:
    """A paho client that keeps what it hears."""

    def __init__(self, host, port, user=None, password=None, context=None, transport="tcp", protocol=4):
        import paho.mqtt.client as paho
        self.heard, self.code, self.subscribed, self.acked = [], None, 0, set()
        self.c = paho.Client(f"{user}-{port}", protocol=protocol, transport=transport)
        if user is not None:
            self.c.username_pw_set(user, password)
        if context is not None:
            self.c.tls_set_context(context)
        self.c.on_connect = self._connected
        self.c.on_message = lambda _c, _u, m: self.heard.append((m.topic, m.payload.decode()))
        self.c.on_subscribe = lambda *_: setattr(self, "subscribed", self.subscribed + 1)
        self.c.on_publish = lambda _c, _u, mid: self.acked.add(mid)
        self.c.connect(host, port, 30)
        self.turn(lambda: self.code is not None)

    def _connected(self, _c, _u, _flags, rc, *_):
        self.code = int(getattr(rc, "value", rc))

    def turn(self, until, seconds=20):
        import time
        end = time.time() + seconds
        while not until() and time.time() < end:
            self.c.loop(0.05)
        assert until(), (self.code, self.heard)
        return self

    def subscribe(self, topic):
        want = self.subscribed + 1
        self.c.subscribe(topic, 1)
        return self.turn(lambda: self.subscribed == want)

    def publish(self, topic, text):
        mid = self.c.publish(topic, text, 1).mid
        return self.turn(lambda: mid in self.acked)

    def close(self):
        self.c.disconnect()


def refused(host, port, **how):
    """The CONNACK's code of somebody who may not come in."""
    p = Peer(host, port, **how)
    p.close()
    return p.code


def check_home_assistant(host, listeners, context):
    """Every user through every listener does what passwords and ACL allow, and nothing else.
    listeners: port -> (transport, TLS); context() makes a TLS context."""
    hub = Peer(host, next(iter(listeners)), "homeassistant", USERS["homeassistant"]).subscribe("#")
    for port, (transport, tls) in listeners.items():
        how = {"transport": transport, "context": context() if tls else None}
        for user, password in ((None, None), ("sensor", "wrong"), ("nobody", "s3nsor")):
            assert refused(host, port, user=user, password=password, **how) == 5, (port, user)
        sensor = Peer(host, port, "sensor", USERS["sensor"], **how).subscribe("#")
        addons = Peer(host, port, "addons", USERS["addons"], **how).subscribe("sensors/#")
        assert sensor.code == addons.code == 0, port
        sensor.publish("private/x", f"no {port}").publish("sensors/1/state", f"yes {port}")
        sensor.publish("sensors/1/config", f"no {port}")
        addons.turn(lambda: addons.heard)
        assert addons.heard == [("sensors/1/state", f"yes {port}")], port
        hub.publish("private/y", "not for the sensor").publish("command/sensor", f"go {port}")
        sensor.publish("own/sensor/x", "mine")
        sensor.turn(lambda: len(sensor.heard) >= 2)
        assert sorted(sensor.heard) == [("command/sensor", f"go {port}"), ("own/sensor/x", "mine")], port
        hub.turn(lambda: ("own/sensor/x", "mine") in hub.heard)
        sensor.close()
        addons.close()
        assert not [m for m in hub.heard if m[1].startswith("no ")], "published by who may not"
        assert ("sensors/1/state", f"yes {port}") in hub.heard
        hub.heard.clear()
    hub.close()
