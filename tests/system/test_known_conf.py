# SPDX-License-Identifier: Apache-2.0
"""Proves: mosquitto's configuration as Debian, the container and a Home Assistant style installation have it starts
unchanged once packed by urmqtt-stamp, each line that has no effect is told at packing and at the start, and real clients
come in by every listener with their passwords and ACL. The address comes by DHCP, as no such file names one."""
import os
import re
import subprocess

import pytest

import known_conf
import lab
from lab import BROKER, LINUX

STAMP = os.path.join(lab.BUILD, "tools/urmqtt-stamp")


@pytest.fixture
def dhcp(namespace, tmp_path):
    p = subprocess.Popen(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=tap0",
                          "--bind-interfaces", f"--dhcp-range={BROKER},{BROKER},2m", f"--listen-address={LINUX}", "--no-ping",
                          "--user=root", "--pid-file=", f"--dhcp-leasefile={tmp_path}/leases"], stderr=subprocess.DEVNULL)
    yield
    p.terminate()
    p.wait(10)


def packed(tmp_path, conf):
    """What the stamp said, and the folder for the hosted broker."""
    out = tmp_path / "out.iso"
    said = known_conf.pack(STAMP, known_conf.bare_iso(STAMP, tmp_path), conf, out)
    known_conf.unpack(out, tmp_path / "conf")
    return said, (tmp_path / "conf/urmqtt.conf").read_text()


def warned(broker):
    """Keywords of the lines that the broker itself warned of at its start."""
    return {m.group(1) for m in (re.search(r"\.conf:\d+: warning: (\w+)", line) for line in broker.lines) if m}


def test_debian(start, dhcp, tmp_path):
    conf = known_conf.lay_out(tmp_path, "debian")
    said, text = packed(tmp_path, conf)
    assert {k for k, v in known_conf.fates(said).items() if v == "ignored"} == {"pid_file", "persistence_location"}
    b = start(config=text)
    assert lab.ping()
    with pytest.raises(ConnectionRefusedError):
        lab.Raw()
    print("\n".join(b.lines))
    assert {"pid_file", "persistence_location"} <= warned(b)
    assert b.stop() == 0
    assert any("listen" in line for line in b.lines), "that nothing listens is told"


def test_debian_as_its_users_go_on(start, dhcp, tmp_path):
    """Two lines of their own in conf.d."""
    conf = known_conf.lay_out(tmp_path, "debian")
    (tmp_path / "conf.d/local.conf").write_text("listener 1883\nallow_anonymous true\n")
    _, text = packed(tmp_path, conf)
    b = start(config=text)
    p = known_conf.Peer(BROKER, 1883).subscribe("a/#").publish("a/b", "hello")
    p.turn(lambda: p.heard == [("a/b", "hello")])
    print("\n".join(b.lines))
    assert {"pid_file", "persistence_location"} <= warned(b)
    assert b.stop() == 0


def test_container(start, dhcp, tmp_path):
    said, text = packed(tmp_path, known_conf.lay_out(tmp_path, "docker"))
    assert "listener 9883 is mosquitto's HTTP interface" in said
    b = start(config=text)
    p = known_conf.Peer(BROKER, 1883, protocol=5).subscribe("a/#").publish("a/b", "hello")
    p.turn(lambda: p.heard == [("a/b", "hello")])
    with pytest.raises(ConnectionRefusedError):
        lab.Raw(port=9883)
    print("\n".join(b.lines))
    assert "http_dir" in warned(b)
    assert b.stop() == 0


def test_home_assistant(start, dhcp, tmp_path, pki):
    conf = known_conf.lay_out(tmp_path, "homeassistant", [f"{pki}/{n}" for n in ("ca.pem", "server.pem", "server.key")])
    said, text = packed(tmp_path, conf)
    ignored = {k for k, v in known_conf.fates(said).items() if v == "ignored"}
    assert {"user", "log_timestamp_format"} <= ignored and "refused" not in known_conf.fates(said).values()
    b = start(config=text)
    known_conf.check_home_assistant(BROKER, known_conf.LISTENERS, lambda: lab.context(pki, None))
    print("\n".join(b.lines))
    assert ignored <= warned(b)
    assert b.stop() == 0
