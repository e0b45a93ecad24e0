# SPDX-License-Identifier: Apache-2.0
"""The commands as a user meets them. Proves: ./urmqtt and urmqtt-stamp end with 0, 1 and 2 as documented and say what is
wrong; --check names file, line and reason for each mistake of a configuration; a stamped ISO differs only in its slot and
carries exactly the bundle; no key is ever printed; the test PKI is made once and never overwritten."""
import hashlib
import os
import re
import shutil
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.path.join(ROOT, os.environ.get("B", "build"))
STAMP = os.path.join(B, "tools/urmqtt-stamp")
PKI = os.path.join(B, "pki")
SLOT = 1 << 20
GOOD = """# a comment
listener 8883
cafile ca.crt
certfile server.crt
keyfile server.key
require_certificate true
use_identity_as_username true
network dhcp
"""


def run(*command, **how):
    how.setdefault("timeout", 60)
    return subprocess.run([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, **how)


def openssl(*args):
    p = run("openssl", *args)
    assert p.returncode == 0, p.stderr


@pytest.fixture
def bundle(tmp_path):
    d = tmp_path / "bundle"
    d.mkdir()
    for name in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, name), d)
    (d / "urmqtt.conf").write_text(GOOD)
    return d


def check(bundle, conf=None):
    if conf is not None:
        (bundle / "urmqtt.conf").write_text(conf)
    p = run(STAMP, "--check", bundle)
    for key in bundle.glob("*.key"):
        assert not any(line in p.stdout + p.stderr for line in key.read_text().splitlines()[1:-1] if line)
    return p


def make_iso(path, slots=1):
    """Nothing of an ISO but what the stamp looks for: empty slots at multiples of 2048 bytes."""
    slot = path.parent / "slot"
    assert run(STAMP, "--empty-slot", slot).returncode == 0
    empty = slot.read_bytes()
    assert len(empty) == SLOT
    path.write_bytes(b"\x11" * 6144 + b"".join(empty + b"\x22" * 2048 for _ in range(slots)))
    return path


# --- --check

def test_good(bundle):
    p = check(bundle)
    assert (p.returncode, p.stderr) == (0, "")


@pytest.mark.parametrize("line, wrong, reason", [
    (2, "listener 0", "port from 1 to 65535"),
    (2, "listener eighty", "eighty"),
    (3, "cafile nowhere.crt", "nowhere.crt"),
    (6, "require_certificate maybe", "true or false"),
    (8, "network 10.0.0.1", "ADDRESS/PREFIX"),
    (8, "network 10.0.0.1/33", "ADDRESS/PREFIX"),
    (8, "network dhcp gateway 1.2.3", "gateway ADDRESS"),
    (8, "max_conections 5", 'did you mean "max_connections"'),
    (8, "xyzzyplugh 1", "unknown keyword"),
    (8, "acl_file acl", 'no file "acl"'),
    (8, "psk_file p", "ignoring it would let in"),
    (8, "auth_plugin /usr/lib/x.so", "ignoring it would let in"),
    (8, "log_dst file", 'did you mean "log_dest"'),
    (2, "listener 8883 example.org", "leave it out"),
    (8, "per_listener_settings true", "before the first listener"),
    (8, "port 0", "from 1 to 65535"),
    (8, "max_qos 3", "from 0 to 2"),
    (8, "max_packet_size 19", "from 20"),
    (8, "listener 8883", "line 2"),
    (8, "persistent_client_expiration 5", "h d w m y"),
    (8, "protocol amqp", "websockets or http_api"),
    (8, "enable_proxy_protocol 3", "from 1 to 2"),
])
def test_mistake_is_named(bundle, line, wrong, reason):
    lines = GOOD.splitlines()
    lines[line - 1] = wrong
    p = check(bundle, "\n".join(lines) + "\n")
    assert p.returncode == 1
    hits = [t for t in p.stderr.splitlines() if t.startswith(f"urmqtt.conf:{line}: error: ")]
    assert len(hits) == 1 and reason in hits[0], p.stderr


def test_every_mistake_at_once(bundle):
    p = check(bundle, GOOD + "foo 1\nbar 2\nmax_qos 9\n")
    assert p.returncode == 1
    assert [int(n) for n in re.findall(r"^urmqtt.conf:(\d+): error", p.stderr, re.M)] == [9, 10, 11]


def test_known_but_without_effect_is_a_warning(bundle):
    p = check(bundle, GOOD + "log_dest file /x\npid_file /run/m.pid\n")
    assert p.returncode == 0
    assert "urmqtt.conf:9: warning: log_dest" in p.stdout and "urmqtt.conf:10: warning: pid_file" in p.stdout


def test_absolute_path_of_mosquitto(bundle):
    assert check(bundle, GOOD.replace("cafile ca.crt", "cafile /etc/mosquitto/ca_certificates/ca.crt")).returncode == 0


def test_key_of_another_certificate(bundle):
    shutil.copy(os.path.join(PKI, "client.key"), bundle / "server.key")
    p = check(bundle)
    assert p.returncode == 1 and re.search(r"^server\.key(:\d+)?: error: .*match", p.stderr, re.M), p.stderr


def test_encrypted_key(bundle):
    openssl("ec", "-in", bundle / "server.key", "-aes128", "-passout", "pass:x", "-out", bundle / "enc.key")
    os.replace(bundle / "enc.key", bundle / "server.key")
    p = check(bundle)
    assert p.returncode == 1 and re.search(r"^server\.key(:\d+)?: error: .*encrypted", p.stderr, re.M), p.stderr


def test_expired_ca(bundle, tmp_path):
    config = tmp_path / "ca.cnf"
    config.write_text("[ca]\ndefault_ca = d\n[d]\ndatabase = index\nnew_certs_dir = .\nrand_serial = yes\n"
                      "default_md = sha256\npolicy = p\nx509_extensions = e\n[p]\ncommonName = supplied\n"
                      "[e]\nbasicConstraints = critical,CA:TRUE\n")
    (tmp_path / "index").write_text("")
    key, request = tmp_path / "old.key", tmp_path / "old.csr"
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    openssl("req", "-new", "-key", key, "-subj", "/CN=old", "-out", request)
    p = subprocess.run(["openssl", "ca", "-batch", "-selfsign", "-config", "ca.cnf", "-keyfile", key, "-in", request, "-notext",
                        "-out", bundle / "ca.crt", "-startdate", "20150101000000Z", "-enddate", "20200101000000Z"],
                       cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
    p = check(bundle)
    assert p.returncode == 1 and re.search(r"^ca\.crt(:\d+)?: error: .*expired", p.stderr, re.M), p.stderr


def test_no_urmqtt_conf(bundle):
    os.remove(bundle / "urmqtt.conf")
    p = check(bundle)
    assert p.returncode == 1 and "urmqtt.conf: error: " in p.stderr


# --- from a mosquitto.conf

def mosquitto(tmp_path, name):
    """The stored configuration of this kind with the test's folder in it."""
    text = open(os.path.join(ROOT, "tests/system/data", name, "mosquitto.conf")).read().replace("@", str(tmp_path))
    (tmp_path / "mosquitto.conf").write_text(text)
    return tmp_path / "mosquitto.conf"


def fates(p):
    return dict(re.findall(r"^  (\S+) +(kept|mapped|ignored|refused|unknown)", p.stdout, re.M))


def carried(iso, tmp_path):
    data = iso.read_bytes()
    length = struct.unpack_from("<I", data, 6144 + 16)[0]
    (tmp_path / "t.tar").write_bytes(data[6144 + 512:6144 + 512 + length])
    p = subprocess.run(["tar", "-tf", tmp_path / "t.tar"], capture_output=True, text=True, check=True)
    return sorted(p.stdout.split())


def test_mosquitto_of_debian(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/README").write_text("listener 1\n")
    conf, out = mosquitto(tmp_path, "debian"), tmp_path / "out.iso"
    p = run(STAMP, make_iso(tmp_path / "in.iso"), "--mosquitto", conf, "-o", out)
    assert p.returncode == 0 and p.stderr == "", p.stderr
    assert fates(p) == {"pid_file": "ignored", "persistence": "mapped", "persistence_location": "ignored",
                        "log_dest": "mapped", "include_dir": "kept"}
    for said in ("no `listener` line", "Write `listener 1883`", "missing: network", "missing: listener", "without one in RAM only"):
        assert said in p.stdout
    assert carried(out, tmp_path) == ["urmqtt.conf"]
    # What stands in its folder comes along, and what that names.
    shutil.copy(os.path.join(PKI, "ca.crt"), tmp_path)
    (tmp_path / "cas").mkdir()
    shutil.copy(os.path.join(PKI, "ca.crt"), tmp_path / "cas/one.pem")
    (tmp_path / "conf.d/tls.conf").write_text(
        f"listener 8883\ncapath {tmp_path}/cas/\ncafile {tmp_path}/ca.crt\ncertfile {PKI}/server.crt\n"
        f"keyfile {PKI}/server.key\nrequire_certificate true\nuse_identity_as_username true\nnetwork dhcp\n")
    p = run(STAMP, make_iso(tmp_path / "in.iso"), "--mosquitto", conf, "-o", out)
    assert p.returncode == 0 and "missing: nothing" in p.stdout, p.stderr + p.stdout
    at = str(tmp_path).strip("/")
    assert carried(out, tmp_path) == sorted(
        ["urmqtt.conf", f"{at}/conf.d/tls.conf", f"{at}/ca.crt", f"{at}/cas/one.pem"] +
        [f"{PKI}/{n}".strip("/") for n in ("server.crt", "server.key")])
    assert "PRIVATE" not in p.stdout


def test_mosquitto_of_the_container(tmp_path):
    p = run(STAMP, "--check", "--mosquitto", mosquitto(tmp_path, "docker"))
    assert p.returncode == 0 and p.stderr == "", p.stderr
    assert fates(p) == {"listener": "kept", "allow_anonymous": "kept", "protocol": "kept", "http_dir": "ignored"}
    assert "listener 9883 is mosquitto's HTTP interface" in p.stdout


def test_mosquitto_of_home_assistant(tmp_path):
    """Four listeners, passwords, ACL, an included folder: packed whole, starts as it is."""
    for folder in ("ssl", "share/mosquitto"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, name), tmp_path / "ssl")
    subprocess.run(["mosquitto_passwd", "-c", "-b", tmp_path / "pw", "homeassistant", "secret"], check=True)
    (tmp_path / "acl").write_text("user homeassistant\ntopic readwrite #\n")
    (tmp_path / "share/mosquitto/own.conf").write_text("max_inflight_messages 40\n")
    conf, out = mosquitto(tmp_path, "homeassistant"), tmp_path / "out.iso"
    p = run(STAMP, make_iso(tmp_path / "in.iso"), "--mosquitto", conf, "-o", out)
    assert p.returncode == 0 and p.stderr == "", p.stderr
    of = fates(p)
    assert of["password_file"] == of["acl_file"] == of["listener"] == of["max_inflight_messages"] == "kept"
    assert of["user"] == of["log_timestamp_format"] == "ignored" and "refused" not in of.values()
    at = str(tmp_path).strip("/")
    assert carried(out, tmp_path) == sorted(["urmqtt.conf"] + [f"{at}/{n}" for n in (
        "pw", "acl", "ssl/ca.crt", "ssl/server.crt", "ssl/server.key", "share/mosquitto/own.conf")])
    assert "missing: network" in p.stdout and "secret" not in p.stdout


def test_mosquitto_with_what_cannot_be_honoured(tmp_path):
    conf = tmp_path / "m.conf"
    conf.write_text("listener 1883\nallow_anonymous true\nauth_plugin /usr/lib/x.so\nfoo 1\n")
    out = tmp_path / "out.iso"
    p = run(STAMP, make_iso(tmp_path / "in.iso"), "--mosquitto", conf, "-o", out)
    assert p.returncode == 1 and not out.exists() and fates(p)["foo"] == "unknown"
    assert "urmqtt.conf:3: error: auth_plugin" in p.stderr and "urmqtt.conf:4: error" in p.stderr
    conf.write_text("listener 1883\ncafile /nowhere/ca.crt\n")
    p = run(STAMP, "--check", "--mosquitto", conf)
    assert p.returncode == 1 and "/nowhere/ca.crt: No such file" in p.stderr


# --- the slot

def test_stamp(bundle, tmp_path):
    iso, out = make_iso(tmp_path / "in.iso"), tmp_path / "out.iso"
    before = hashlib.sha256(iso.read_bytes()).digest()
    p = run(STAMP, iso, bundle, "-o", out)
    assert p.returncode == 0, p.stderr
    for name in ("ca.crt", "server.crt", "server.key", "urmqtt.conf"):
        assert re.search(rf"{re.escape(name)} +{(bundle / name).stat().st_size} bytes", p.stdout)
    assert "PRIVATE" not in p.stdout
    old, new = iso.read_bytes(), out.read_bytes()
    assert hashlib.sha256(old).digest() == before
    assert len(old) == len(new)
    assert old[:6144] == new[:6144] and old[6144 + SLOT:] == new[6144 + SLOT:]
    assert os.stat(out).st_mode & 0o077 == 0, "a file with a private key is for its owner only"
    length = struct.unpack_from("<I", new, 6144 + 16)[0]
    tar = tmp_path / "t.tar"
    tar.write_bytes(new[6144 + 512:6144 + 512 + length])
    names = subprocess.run(["tar", "-tf", tar], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(names) == ["ca.crt", "server.crt", "server.key", "urmqtt.conf"]
    assert not any(new[6144 + 512 + length:6144 + SLOT])
    assert "urmqtt.conf" in run(STAMP, "--show", out).stdout
    # A second stamp replaces the first one whole.
    (bundle / "urmqtt.conf").write_text(GOOD + "max_qos 1\n")
    assert run(STAMP, out, bundle, "-o", tmp_path / "again.iso").returncode == 0
    assert run(STAMP, "--show", tmp_path / "again.iso").returncode == 0


def test_stamp_of_a_bad_bundle_writes_nothing(bundle, tmp_path):
    iso, out = make_iso(tmp_path / "in.iso"), tmp_path / "out.iso"
    (bundle / "urmqtt.conf").write_text(GOOD + "nonsense\n")
    p = run(STAMP, iso, bundle, "-o", out)
    assert p.returncode == 1 and not out.exists() and "urmqtt.conf:9: error" in p.stderr


def test_bundle_larger_than_the_slot(bundle, tmp_path):
    (bundle / "big").write_bytes(b"x" * SLOT)
    p = run(STAMP, make_iso(tmp_path / "in.iso"), bundle, "-o", tmp_path / "out.iso")
    assert p.returncode == 1 and str(SLOT - 512) in p.stderr and not (tmp_path / "out.iso").exists()


@pytest.mark.parametrize("slots, reason", [(0, "no configuration slot"), (2, "two configuration slots")])
def test_no_or_two_slots(bundle, tmp_path, slots, reason):
    iso = make_iso(tmp_path / "in.iso", slots)
    if slots == 0:
        iso.write_bytes(bytes(2 * SLOT))
    p = run(STAMP, iso, bundle, "-o", tmp_path / "out.iso")
    assert p.returncode == 1 and reason in p.stderr


def test_show_of_an_empty_slot(tmp_path):
    p = run(STAMP, "--show", make_iso(tmp_path / "in.iso"))
    assert p.returncode == 0 and "no configuration" in p.stdout


@pytest.mark.parametrize("args", [[], ["--check"], ["a", "b"], ["a", "b", "-x", "c"], ["--what", "x"]])
def test_stamp_usage(args):
    p = run(STAMP, *args)
    assert p.returncode == 2 and p.stderr.startswith("usage: ") and "--check" in p.stderr


@pytest.mark.parametrize("args", [["--check", "/nowhere/at/all"], ["--show", "/nowhere.iso"]])
def test_stamp_of_what_is_not_there(args):
    p = run(STAMP, *args)
    assert p.returncode == 1 and "No such file" in p.stderr


# --- ./urmqtt

@pytest.mark.parametrize("args, reason", [
    ([], "a command is wanted"), (["frobnicate"], "frobnicate"), (["build"], "hosted x86_64 aarch64 iso tools"),
    (["build", "windows"], "windows"), (["test", "nothing"], "there are: build tidy unit"), (["bench", "speed"], "speed"),
    (["run", "--port"], "wants a value"), (["run", "--port", "0"], "from 1 to 65535"), (["run", "--port", "x"], "\"x\""),
    (["run", "--port", "7", "--plain-port", "7"], "must differ"), (["run", "--firmware", "coreboot"], "bios or uefi"),
    (["run", "--arch", "mips"], "mips"), (["run", "--seconds", "0"], "from 1"), (["run", "--wat", "1"], "--wat"),
    (["run", "--config", "/nowhere"], "no urmqtt.conf"), (["fuzz", "now"], "number"),
])
def test_wrong_usage(args, reason):
    p = run("./urmqtt", *args)
    assert p.returncode == 2 and reason in p.stderr and "usage: ./urmqtt COMMAND" in p.stderr


def test_help():
    p = run("./urmqtt", "help")
    assert p.returncode == 0 and p.stderr == ""
    for word in ("run", "build", "test", "bench", "prove", "fuzz", "--port", "--plain-port", "--config", "--seconds"):
        assert word in p.stdout


def test_every_package_has_a_group_and_a_reason():
    seen = set()
    for line in open(os.path.join(ROOT, "tools/packages.txt")):
        if line.startswith("#") or not line.strip():
            continue
        name, group, reason = line.split(None, 2)
        assert group in ("build", "run", "test") and len(reason) > 10 and name not in seen
        seen.add(name)
    assert {"clang-19", "qemu-system-x86", "libcmocka-dev"} <= seen


def test_missing_packages_are_named_to_an_ordinary_user(tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "dpkg-query").write_text("#!/bin/sh\nprintf 'ii clang-19\\nii make\\n'\n")
    (fake / "id").write_text("#!/bin/sh\necho 1000\n")
    for f in fake.iterdir():
        f.chmod(0o755)
    p = run("./urmqtt", "build", "tools", env={**os.environ, "PATH": f"{fake}:{os.environ['PATH']}"})
    assert p.returncode == 1
    command = re.search(r"apt-get install --no-install-recommends (.*)", p.stderr).group(1).split()
    assert "lld-19" in command and "clang-19" not in command and "make" not in command
    assert "qemu-system-x86" not in command, "a build needs no virtual machine"


# --- the test PKI

def test_pki_is_never_overwritten(tmp_path):
    assert run("tools/pki", tmp_path / "pki").returncode == 0
    names = sorted(os.listdir(tmp_path / "pki"))
    assert names == ["ca.crt", "ca.key", "client.crt", "client.key", "server.crt", "server.key"]
    before = {n: (tmp_path / "pki" / n).read_bytes() for n in names}
    assert run("tools/pki", tmp_path / "pki").returncode == 0
    assert {n: (tmp_path / "pki" / n).read_bytes() for n in names} == before
    for n in names:
        if n.endswith(".key"):
            assert os.stat(tmp_path / "pki" / n).st_mode & 0o077 == 0
    for host in (["-verify_hostname", "localhost"], ["-verify_ip", "127.0.0.1"]):
        openssl("verify", "-CAfile", tmp_path / "pki/ca.crt", "-purpose", "sslserver", *host, tmp_path / "pki/server.crt")
    openssl("verify", "-CAfile", tmp_path / "pki/ca.crt", "-purpose", "sslclient", tmp_path / "pki/client.crt")
