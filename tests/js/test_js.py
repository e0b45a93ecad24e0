# SPDX-License-Identifier: Apache-2.0
"""Proves: MQTT.js in Node (TCP, TLS with a client certificate, ws, wss) and in headless Chromium over wss speaks 3.1.1 and
5 with us: every QoS, retained, 300 KB. `make js-test` installs MQTT.js by npm from the locked versions first."""
import base64
import hashlib
import json
import os
import subprocess
import sys
import time

import paho.mqtt.client as paho
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import lab  # noqa: E402
from lab import BROKER  # noqa: E402

HERE = os.path.join(lab.BUILD, "js")
CONFIG = f"""
network {BROKER}/24
per_listener_settings true
listener 1883
allow_anonymous true
listener 8883
cafile ca.pem
certfile server.pem
keyfile server.key
require_certificate true
use_identity_as_username true
listener 9001
protocol websockets
allow_anonymous true
listener 9002
protocol websockets
allow_anonymous true
certfile server.pem
keyfile server.key
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    lab.enter_namespace()
    lab.make_tap()
    pki = str(tmp_path_factory.mktemp("pki"))
    lab.make_pki(pki)
    b = lab.Broker(str(tmp_path_factory.mktemp("js")), pki, config=CONFIG, ready="wss on")
    b.pki = pki
    assert lab.ping()
    yield b
    assert b.stop() == 0


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("url", ["mqtt://{}:1883", "mqtts://{}:8883", "ws://{}:9001/mqtt", "wss://{}:9002/mqtt"])
def test_node(broker, url, version):
    options = {"protocolVersion": version, "clientId": f"node{version}"}
    if "s://" in url and "ws:" not in url:
        options.update(ca=f"{broker.pki}/ca.pem")
    if "mqtts" in url:
        options.update(cert=f"{broker.pki}/client.pem", key=f"{broker.pki}/client.key")
    done = subprocess.run(["node", "client.js", url.format(BROKER), json.dumps(options)], cwd=HERE, text=True,
                          stdout=subprocess.PIPE, timeout=60)
    said = json.loads(done.stdout)
    assert sorted(said["got"], key=str) == sorted([
        ["js/a", "q0", 0, False], ["js/a", "q1", 1, False], ["js/a", "q2", 2, False], ["js/big", 300000, 1, False],
        ["js/kept", "kept", 1, False]], key=str), said
    lab.Raw().open("clean").send(lab.publish("js/kept", b"", retain=True) + lab.DISCONNECT).close()


@pytest.mark.parametrize("version", [4, 5])
def test_chromium_over_wss(broker, tmp_path, version):
    results = []
    watcher = paho.Client("watch")
    watcher.on_message = lambda c, u, m: results.append(json.loads(m.payload))
    watcher.on_connect = lambda c, *a: c.subscribe("browser/result", 1)
    watcher.connect(BROKER, 1883)
    watcher.loop_start()
    der = subprocess.run(["openssl", "x509", "-in", f"{broker.pki}/server.pem", "-pubkey", "-noout"], check=True,
                         stdout=subprocess.PIPE).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=der, check=True,
                         stdout=subprocess.PIPE).stdout
    pin = base64.b64encode(hashlib.sha256(der).digest()).decode()
    page = f"file://{HERE}/page.html#wss://{BROKER}:9002/mqtt%20{version}"
    browser = subprocess.Popen(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--allow-file-access-from-files", f"--user-data-dir={tmp_path}",
         f"--ignore-certificate-errors-spki-list={pin}", "--remote-debugging-port=0", page],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.time() + 90
        while not results and time.time() < end:
            time.sleep(0.1)
    finally:
        browser.terminate()
        browser.wait(20)
        watcher.loop_stop()
        watcher.disconnect()
    assert results, broker.lines[-5:]
    assert sorted(results[0]["got"], key=str) == sorted(
        [["b/a", "q0", 0], ["b/a", "q1", 1], ["b/a", "q2", 2], ["b/big", 100000, 1]], key=str)
    assert "Chrome" in results[0]["agent"]
