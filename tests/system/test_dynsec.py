# SPDX-License-Identifier: Apache-2.0
"""Dynamic security with mosquitto's own tool: its file as `mosquitto_ctrl dynsec init` writes it, every command of
`mosquitto_ctrl dynsec`, and the same commands as JSON to mosquitto 2.0.11 with its plugin, answer by answer."""
import glob
import json
import subprocess
import time

import paho.mqtt.client as paho
import pytest

import lab
from lab import BROKER, PLAIN

TOPIC = "$CONTROL/dynamic-security/v1"
PLUGIN = next(iter(glob.glob("/usr/lib/*/mosquitto_dynamic_security.so")), None)


def init(path):
    subprocess.run(["mosquitto_ctrl", "dynsec", "init", path, "admin", "geheim"], check=True, stdout=subprocess.DEVNULL)


def ctrl(*args, user="admin", password="geheim", host=BROKER, port=PLAIN, stdin=None):
    p = subprocess.run(["mosquitto_ctrl", "-h", host, "-p", str(port), "-u", user, "-P", password, "dynsec", *args],
                       capture_output=True, text=True, timeout=20, input=stdin)
    return p.returncode, p.stdout + p.stderr


@pytest.fixture
def broker(start, tmp_path):
    (tmp_path / "conf").mkdir()
    init(str(tmp_path / "conf" / "dynsec.json"))
    b = start(config=f"network {BROKER}/24\nlistener {PLAIN}\nplugin /usr/lib/mosquitto_dynamic_security.so\n"
              "plugin_opt_config_file /var/lib/dynsec.json\n")
    yield b
    assert b.stop() == 0


def pub(user, password, topic, *more):
    return subprocess.run(["mosquitto_pub", "-h", BROKER, "-p", str(PLAIN), "-u", user, "-P", password, "-t", topic, "-m",
                           "x", "-q", "1", "-V", "mqttv5", *more], capture_output=True, text=True, timeout=20)


def test_mosquitto_ctrl(broker):
    """Clients, groups and roles made, changed, listed and taken away by the tool; rights follow at once."""
    for args in (["createClient", "alice", "-p", "pw"], ["createRole", "sensor"], ["createGroup", "house"],
                 ["addRoleACL", "sensor", "publishClientSend", "up/#", "allow", "5"],
                 ["addGroupRole", "house", "sensor", "3"], ["addGroupClient", "house", "alice", "2"]):
        code, out = ctrl(*args)
        assert code == 0 and "rror" not in out, (args, out)
    assert pub("alice", "pw", "up/1").returncode == 0
    assert "Not authorized" in pub("alice", "pw", "down/1").stderr
    assert pub("alice", "other", "up/1").returncode != 0
    assert pub("nobody", "pw", "up/1").returncode != 0
    assert "alice" in ctrl("listClients")[1]
    out = ctrl("getClient", "alice")[1]
    assert "house (priority: 2)" in out, out
    out = ctrl("getRole", "sensor")[1]
    assert "publishClientSend" in out and "up/#" in out and "5" in out, out
    out = ctrl("getGroup", "house")[1]
    assert "alice" in out and "sensor" in out, out
    assert "publishClientSend" in ctrl("getDefaultACLAccess")[1]
    assert ctrl("setDefaultACLAccess", "publishClientSend", "allow")[0] == 0
    assert pub("alice", "pw", "down/1").returncode == 0
    assert ctrl("setAnonymousGroup", "house")[0] == 0
    assert "house" in ctrl("getAnonymousGroup")[1]
    assert ctrl("setClientPassword", "alice", "newer")[0] == 0
    assert pub("alice", "newer", "up/1").returncode == 0
    assert ctrl("setClientId", "alice", "only-this")[0] == 0
    assert pub("alice", "newer", "up/1").returncode != 0
    assert pub("alice", "newer", "up/1", "-i", "only-this").returncode == 0
    for args in (["removeRoleACL", "sensor", "publishClientSend", "up/#"], ["removeGroupRole", "house", "sensor"],
                 ["removeGroupClient", "house", "alice"], ["addClientRole", "alice", "sensor", "1"],
                 ["removeClientRole", "alice", "sensor"], ["deleteRole", "sensor"], ["deleteClient", "alice"]):
        code, out = ctrl(*args)
        assert code == 0 and "rror" not in out, (args, out)
    assert "alice" not in ctrl("listClients")[1]
    assert pub("alice", "newer", "up/1", "-i", "only-this").returncode != 0
    assert "not found" in ctrl("getClient", "alice")[1].lower()


def test_reload_of_the_file(broker, tmp_path):
    """Another file takes the place of what is there; a bad one changes nothing, and its line is named."""
    path = tmp_path / "conf" / "dynsec.json"
    first = path.read_text()
    assert ctrl("createClient", "alice", "-p", "pw")[0] == 0
    data = json.loads(first)
    data["clients"].append({"username": "bad", "encoded_password": "$8$x"})
    path.write_text(json.dumps(data, indent=1))
    line = 1 + path.read_text()[:path.read_text().index('{\n   "username": "bad"')].count("\n")
    broker.type("reload")
    broker.wait(rf"dynsec.json:{line}: error: an unknown kind of hash")
    broker.wait("nothing was changed")
    assert "alice" in ctrl("listClients")[1]
    p = subprocess.run([f"{lab.BUILD}/tools/urmqtt-stamp", "--check", str(tmp_path / "conf")], capture_output=True, text=True)
    assert p.returncode != 0 and f"dynsec.json:{line}: error: an unknown kind of hash" in p.stderr, p.stderr
    data["clients"][-1] = {"username": "bob", "roles": [{"rolename": "admin"}]}
    for name in ("bob", "bert"):  # into the other half, and back
        broker.lines.clear()
        data["clients"][-1]["username"] = name
        path.write_text(json.dumps(data))
        broker.type("reload")
        broker.wait("reload: done")
        assert ctrl("listClients")[1].splitlines()[:2] == ["admin", name]
        assert ctrl("setClientPassword", name, "new")[0] == 0
        assert ctrl("listClients", user=name, password="new")[0] == 0
    p = subprocess.run([f"{lab.BUILD}/tools/urmqtt-stamp", "--check", str(tmp_path / "conf")], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr


def test_disable_kicks(broker):
    """disableClient ends the client's connection (0x98) and keeps it out; enableClient lets it in again."""
    assert ctrl("createClient", "bob", "-p", "pw")[0] == 0
    reasons = []
    c = paho.Client(client_id="b", protocol=paho.MQTTv5)
    c.username_pw_set("bob", "pw")
    c.on_disconnect = lambda _c, _u, rc, _p=None: reasons.append(int(getattr(rc, "value", rc)))
    c.connect(BROKER, PLAIN)
    c.loop_start()
    time.sleep(0.5)
    assert ctrl("disableClient", "bob")[0] == 0
    end = time.time() + 5
    while not reasons and time.time() < end:
        time.sleep(0.05)
    c.loop_stop()
    assert reasons and reasons[0] in (0x98, 152), reasons
    assert pub("bob", "pw", "t").returncode != 0
    assert ctrl("enableClient", "bob")[0] == 0
    assert "Not authorized" in pub("bob", "pw", "t").stderr  # in again, and may do nothing


class Api:
    """The administrator's connection: one JSON command, its answer."""

    def __init__(self, host, port):
        self.answers = []
        self.c = paho.Client(client_id="api", protocol=paho.MQTTv5)
        self.c.username_pw_set("admin", "geheim")
        self.c.on_message = lambda _c, _u, m: self.answers.append(json.loads(m.payload))
        ready = []
        self.c.on_subscribe = lambda *_: ready.append(1)
        self.c.connect(host, port)
        self.c.loop_start()
        self.c.subscribe(TOPIC + "/response", 1)
        self.wait(lambda: ready)

    @staticmethod
    def wait(what):
        end = time.time() + 10
        while not what() and time.time() < end:
            time.sleep(0.005)
        assert what()

    def ask(self, payload):
        self.answers.clear()
        self.c.publish(TOPIC, payload if isinstance(payload, str) else json.dumps(payload), 1)
        self.wait(lambda: self.answers)
        return self.answers[0]

    def close(self):
        self.c.loop_stop()
        self.c.disconnect()


def command(name, **more):
    return {"command": name, **more}


COMMANDS = [
    command("createRole", rolename="r", textname="R", acls=[
        {"acltype": "publishClientSend", "topic": "a/#", "priority": 1, "allow": True},
        {"acltype": "subscribePattern", "topic": "b/+", "priority": 2, "allow": False}]),
    command("createRole", rolename="r"), command("createRole"), command("createGroup", groupname="g", roles=[
        {"rolename": "r", "priority": 4}]), command("createGroup", groupname="g"), command("createGroup"),
    command("createClient", username="c", password="p", clientid="id", textname="C", textdescription="D",
            roles=[{"rolename": "r", "priority": 7}], groups=[{"groupname": "g", "priority": 9}]),
    command("createClient", username="c", password="p"), command("createClient"),
    command("createClient", username="d", password="p", roles=[{"rolename": "none"}]),
    command("getClient", username="c"), command("getClient", username="x"), command("getClient"),
    command("getGroup", groupname="g"), command("getGroup", groupname="x"), command("getRole", rolename="r"),
    command("listClients"), command("listClients", verbose=True, count=1, offset=1), command("listGroups", verbose=True),
    command("listRoles", count=1), command("nonsense"), command("GETCLIENT", username="c"),
    command("addRoleACL", rolename="r", acltype="publishClientReceive", topic="x", priority=3, allow=True),
    command("addRoleACL", rolename="r", acltype="publishClientReceive", topic="x", priority=3, allow=True),
    command("addRoleACL", rolename="r", acltype="wrong", topic="x"), command("addRoleACL", rolename="none"),
    command("removeRoleACL", rolename="r", acltype="publishClientReceive", topic="nothing"),
    command("getRole", rolename="r"), command("removeClientRole", username="c", rolename="r"),
    command("addClientRole", username="c", rolename="r", priority=1), command("addClientRole", username="x", rolename="r"),
    command("addClientRole", username="c", rolename="x"), command("getClient", username="c"),
    command("removeGroupClient", groupname="g", username="c"), command("addGroupClient", groupname="g", username="c"),
    command("getGroup", groupname="g"), command("modifyClient", username="c", textname="C2", roles=[]),
    command("getClient", username="c"), command("modifyGroup", groupname="g", textname="G2", roles=[]),
    command("getGroup", groupname="g"), command("modifyRole", rolename="r", textname="R2", acls=[]),
    command("getRole", rolename="r"), command("disableClient", username="c"), command("getClient", username="c"),
    command("enableClient", username="c"), command("setClientId", username="c", clientid="other"),
    command("getClient", username="c"), command("setClientPassword", username="c"), command("getDefaultACLAccess"),
    command("setAnonymousGroup", groupname="g"), command("getAnonymousGroup"), command("setAnonymousGroup", groupname="x"),
    command("deleteGroup", groupname="x"), command("deleteClient", username="c"), command("deleteClient", username="c"),
    command("deleteRole", rolename="r"), command("deleteRole", rolename="r"),
]


def shape(answer):
    """What of an answer is compared: commands, whether it is an error, data without what only one of the two has."""
    out = []
    for r in answer["responses"]:
        data = json.loads(json.dumps(r.get("data", {})))
        for kind in ("client", "group", "role"):
            data.get(kind, {}).pop("allowwildcardsubs", None)
            data.get(kind, {}).pop("connections", None)
        for role in data.get("roles", []):
            if isinstance(role, dict):
                role.pop("allowwildcardsubs", None)
        out.append((r["command"].lower(), "error" in r, r.get("correlationData"), data))
    return out


@pytest.mark.skipif(PLUGIN is None, reason="mosquitto's plugin is not there")
def test_same_answers_as_the_plugin(broker, tmp_path):
    init(str(tmp_path / "theirs.json"))
    with open(tmp_path / "m.conf", "w") as f:
        f.write(f"user root\nlistener 21884 127.0.0.1\nallow_anonymous false\nplugin {PLUGIN}\n"
                f"plugin_opt_config_file {tmp_path}/theirs.json\n")
    m = subprocess.Popen(["mosquitto", "-c", str(tmp_path / "m.conf")], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        different = []
        theirs, ours = Api("127.0.0.1", 21884), Api(BROKER, PLAIN)
        for i, c in enumerate(COMMANDS):
            payload = {"commands": [dict(c, correlationData=f"n{i}")]}
            a, b = theirs.ask(payload), ours.ask(payload)
            if shape(b) != shape(a):
                different.append(f"{c}\n  we      {shape(b)}\n  plugin  {shape(a)}")
        for bad in ("nonsense", "{}", '{"commands":{}}', '{"commands":[1]}', '{"commands":[{}]}'):
            a, b = theirs.ask(bad), ours.ask(bad)
            assert "error" in b["responses"][0] and "error" in a["responses"][0], (bad, a, b)
        theirs.close()
        ours.close()
        assert not different, "\n".join(different)
    finally:
        m.terminate()
        m.wait(10)
