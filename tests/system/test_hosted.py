# SPDX-License-Identifier: Apache-2.0
"""The hosted program as such: options and exit codes, a clean stop, life without a configuration, too little memory."""
import os
import socket
import subprocess

import pytest

import lab
from lab import PING, Raw, ping, publish, subscribe


def run(*args):
    return subprocess.run([os.path.join(lab.BUILD, "asan", "urmqtt"), *args], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)


@pytest.mark.parametrize("args, said", [
    ((), "--tap is missing"),
    (("--tap", "tap0", "--cores", "0"), "a number from 1 to 64"),
    (("--tap", "tap0", "--memory", "lots"), "wants a number"),
    (("--frobnicate", "1"), "unknown option"),
])
def test_usage_errors(args, said):
    done = run(*args)
    assert done.returncode == 2 and said in done.stdout and "usage:" in done.stdout


def test_tap_that_does_not_exist_or_is_not_ours(namespace):
    done = run("--tap", "name-that-is-much-too-long")
    assert done.returncode == 1 and "name-that-is" in done.stdout


def test_check(pki, tmp_path):
    for name in ("ca.pem", "server.pem", "server.key", "client.key"):
        (tmp_path / name).write_text(open(f"{pki}/{name}").read())
    (tmp_path / "urmqtt.conf").write_text(lab.CONFIG)
    done = run("--check", "--config", str(tmp_path))
    assert done.returncode == 0 and "is good" in done.stdout, done.stdout
    (tmp_path / "urmqtt.conf").write_text(lab.CONFIG.replace("server.key", "client.key"))
    done = run("--check", "--config", str(tmp_path))
    assert done.returncode == 1 and "client.key" in done.stdout, done.stdout
    (tmp_path / "urmqtt.conf").write_text("listener 1883\nlistenr 8883\n")
    done = run("--check", "--config", str(tmp_path))
    assert done.returncode == 1 and "urmqtt.conf:2: error" in done.stdout, done.stdout


def test_without_a_configuration_it_says_what_is_missing(start):
    b = start(config=None)
    b.wait("urmqtt-stamp")
    b.wait("CIDATA")
    assert b.stop() == 0


def test_errors_elsewhere_leave_the_address(start):
    """A configuration with an error serves nothing, but the machine is at the address its good network lines give."""
    b = start(config="listener 1883\nnetwork 10.9.0.2/24\nbridge_everything yes\n", ready="network 0: 10.9.0.2/24")
    b.wait("urmqtt.conf:3: error")
    b.wait("answers ping and nothing else, at the address")
    assert ping()
    with pytest.raises(OSError):
        socket.create_connection((lab.BROKER, 1883), 2).close()
    assert b.stop() == 0


def test_a_wrong_network_line_gives_no_address(start):
    b = start(config="listener 1883\nallow_anonymous true\nnetwork 10.9.0.2/24\nnetwork 10.9.0.3/99\n",
              ready="answers ping and nothing else\\.")
    b.wait("urmqtt.conf:4: error")
    assert not ping(2)
    assert b.stop() == 0


def test_ping_and_clean_stop(start, pki):
    b = start()
    assert ping()
    five, four = Raw().open("five"), Raw().open("four", version=4)
    tls = Raw(lab.context(pki)).open("tls")
    code = b.stop()
    assert five.told(0x8b) and five.receive() is None
    assert tls.told(0x8b) and tls.receive() is None
    assert four.receive() is None
    assert code == 0


def test_full_memory_holds_the_publisher_back(start):
    """Fills the message memory with retained messages: the publisher waits and is told why, the others go on."""
    b = start(memory=64)
    other = Raw().open("other").send(subscribe("o/x"))
    assert other.receive()[0] == 0x90
    full = Raw().open("full")
    full.s.settimeout(3)
    taken = 0
    with pytest.raises(OSError):  # no PUBACK in three seconds
        for i in range(400):
            full.send(publish(f"r/{i}", bytes(100000), 1, i + 1, retain=True))
            assert full.receive()[1][2:3] in (b"", b"\x10")
            taken += 1
    assert 10 < taken < 400
    assert other.send(PING).receive() == (0xd0, b"")
    assert Raw().open("third").send(PING).receive() == (0xd0, b"")
    other.send(b"".join(publish(f"r/{i}", b"", 0, retain=True) for i in range(taken)))  # room again
    assert full.receive()[0] == 0x40
    assert b.stop() == 0
