# SPDX-License-Identifier: Apache-2.0
"""Proves: an ISO stamped with a Home Assistant style mosquitto.conf, unchanged, boots by BIOS and UEFI, lists the lines that
have no effect, and serves its four listeners (tcp, ws, mqtts, wss) with its users, passwords and ACL."""
import os
import ssl
import sys

import pytest

from run_vm import Machine, build_dir

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))
import known_conf  # noqa: E402
from test_service import free_port, is_free  # noqa: E402

PKI = os.path.join(build_dir(), "pki")


def context():
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.load_verify_locations(f"{PKI}/ca.crt")
    c.check_hostname = False
    return c


@pytest.mark.matrix
@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_home_assistant(tmp_path, firmware):
    conf = known_conf.lay_out(tmp_path, "homeassistant", [f"{PKI}/{n}" for n in ("ca.crt", "server.crt", "server.key")])
    iso = str(tmp_path / "out.iso")
    known_conf.pack(f"{build_dir()}/tools/urmqtt-stamp", f"{build_dir()}/urmqtt.iso", conf, iso)
    first = free_port()
    ports = [p for p in range(first, first + 400) if is_free(p)][:len(known_conf.LISTENERS)]
    forwards = list(zip(ports, known_conf.LISTENERS))
    with Machine(iso=iso, firmware=firmware, forwards=forwards, memory=512) as m:
        m.expect("network 0: 10.0.2.15/24", 240)
        said = m.output()
        for line in ("warning: user has no effect", "warning: log_timestamp_format", "warning: persistence: kept on a disk",
                     "ready: mqtt on 0.0.0.0:1883", "ready: wss on 0.0.0.0:8884"):
            assert line in said, said
        known_conf.check_home_assistant("127.0.0.1", {p: known_conf.LISTENERS[g] for p, g in forwards}, context)
