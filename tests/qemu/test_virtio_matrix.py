# SPDX-License-Identifier: Apache-2.0
"""The virtio-net driver on every shape of the device, on `pc` (configuration space by ports) and `q35` (by memory).
Proves: each is driven as what it is (modern or legacy, with or without MSI-X, merged buffers, checksums), takes its ring
sizes, and carries the mix (none lost, duplicated or reordered); it works again after the cable was pulled."""
import os
import re
import shutil
import subprocess
import time

import pytest

from diagnose import document
from run_vm import Machine, build_dir

KERNEL = os.path.join(build_dir(), "x86_64/urmqtt.elf")
PKI = os.path.join(build_dir(), "pki")
MIX = os.path.join(build_dir(), "bench/mqttmix")
READY = "network 0: 10.88.0.2/24"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a TAP device wants root")

# Options of the device, what the kernel must say about it.
ROWS = [
    ("", "modern, MSI-X, merged"),
    ("disable-modern=on", "legacy, MSI-X, merged"),
    ("disable-legacy=on", "modern, MSI-X, merged"),
    ("event_idx=off", "modern, MSI-X, merged"),
    ("mrg_rxbuf=off", "modern, MSI-X, single"),
    ("indirect_desc=off", "modern, MSI-X, merged"),
    ("vectors=0", "modern, polled, merged"),
    ("vectors=1", "modern, MSI-X, merged"),
    ("mq=on,vectors=6", "modern, MSI-X, merged"),
    ("disable-legacy=on,iommu_platform=on", "modern, MSI-X, merged"),
    ("rx_queue_size=1024", "modern, MSI-X, merged"),
    ("disable-modern=on,rx_queue_size=1024", "legacy, MSI-X, merged"),
    ("disable-modern=on,vectors=0", "legacy, polled, merged"),
    ("disable-modern=on,mrg_rxbuf=off,any_layout=off,event_idx=off,indirect_desc=off", "legacy, MSI-X, single"),
    ("csum=off,gso=off,guest_csum=off", "modern, MSI-X, merged"),
    ("page-per-vq=on", "modern, MSI-X, merged"),
    ("packed=on", "modern, MSI-X, merged"),
    ("host_mtu=1400", "modern, MSI-X, merged"),
    ("modern-pio-notify=on", "modern, MSI-X, merged"),
    ("bus=behind", "modern, MSI-X, merged"),
]
SHORT = {("pc", ""), ("pc", "disable-modern=on,mrg_rxbuf=off,any_layout=off,event_idx=off,indirect_desc=off"), ("q35", "vectors=0")}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    d = tmp_path_factory.mktemp("matrix")
    for f in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(os.path.join(PKI, f), d)
    (d / "urmqtt.conf").write_text("listener 8883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
                                   "require_certificate true\nuse_identity_as_username true\nnetwork 10.88.0.2/24\n")
    subprocess.run(["tar", "--format=ustar", "-C", str(d), "-cf", f"{d}.tar", *os.listdir(d)], check=True)
    return f"{d}.tar"


def mix(m, clients=10, messages=200, big=2):
    p = m.in_namespace([MIX, "--host", "10.88.0.2", "--port", "8883", "--cert", f"{PKI}/client.crt", "--key",
                        f"{PKI}/client.key", "--ca", f"{PKI}/ca.crt", "--clients", str(clients), "--messages", str(messages),
                        "--big", str(big), "--seed", "7"], 100)
    assert p.returncode == 0 and "every promise held" in p.stdout, p.stdout[-1500:] + p.stderr[-1500:] + m.output()[-1500:]


def diagnosed(m):
    m.expect("Diagnostics end here", 120)
    return document(m.output())


def said(doc):
    nic = next(d for d in doc["drivers"] if d["of"] == "network 0")
    assert nic["driver"] == "virtio-net"
    return ", ".join(("legacy" if nic["legacy"] else "modern", "MSI-X" if nic["interrupts"] else "polled",
                      "merged" if nic["merged_buffers"] else "single"))


def start(machine, options, **how):
    bridge = []
    if options == "bus=behind":
        bridge = ["-device", "pcie-root-port,id=behind,chassis=1" if machine == "q35" else "pci-bridge,id=behind,chassis_nr=1"]
    nic = "virtio-net-pci" + ("," + options if options else "")
    return Machine(kernel=KERNEL, tap="10.88.0.1/24", machine=machine, nic=nic, extra_first=bridge, memory=256, **how)


def rows(short):
    return pytest.mark.parametrize("machine,options,kind", [
        pytest.param(m, o, k, marks=[] if (m, o) in short else [pytest.mark.matrix]) for o, k in ROWS for m in ("pc", "q35")])


@rows(SHORT)
def test_driven_as_what_it_is(machine, options, kind):
    with start(machine, options, append="diagnostics quick") as m:
        doc = diagnosed(m)
    assert doc["pci_by"] == ("ports" if machine == "pc" else "memory")
    assert said(doc) == kind, doc["drivers"]
    size = re.search(r"rx_queue_size=(\d+)", options)
    if size and "legacy" in kind:
        assert doc["drivers"][0]["receive_queue"] == int(size.group(1))
    if "host_mtu" in options:
        assert doc["network"][0]["mtu"] == 1400


@rows(SHORT)
def test_carries_the_mix(bundle, machine, options, kind):
    with start(machine, options, modules=[bundle]) as m:
        m.expect(READY, 60)
        mix(m)
        assert "has stopped" not in m.output()


@pytest.mark.matrix
@pytest.mark.parametrize("machine", ["pc", "q35"])
def test_second_root(machine):
    """The device on a root bus of its own, which no bridge of bus 0 leads to."""
    root = (["-device", "pxb-pcie,bus_nr=64,id=second", "-device", "pcie-root-port,id=behind,bus=second,chassis=1"]
            if machine == "q35" else ["-device", "pxb,bus_nr=64,id=second"])
    nic = "virtio-net-pci,bus=" + ("behind" if machine == "q35" else "second")
    with Machine(kernel=KERNEL, tap="10.88.0.1/24", machine=machine, nic=nic, extra_first=root, append="diagnostics quick") as m:
        doc = diagnosed(m)
    assert any(re.match(r"(40|41|42):\d\d\.0", d["at"]) and d["id"].startswith("1af4:") for d in doc["pci"]), doc["pci"]
    assert said(doc).startswith("modern")


@pytest.mark.matrix
@pytest.mark.parametrize("options", ["", "disable-modern=on"])
def test_link_pulled(bundle, options):
    with start("q35", options, modules=[bundle]) as m:
        m.expect(READY, 60)
        mix(m)
        m.monitor("set_link n off")
        time.sleep(2.5)
        m.monitor("set_link n on")
        time.sleep(2.5)
        mix(m)
