# SPDX-License-Identifier: Apache-2.0
"""src/tls with other people's clients: openssl s_client and gnutls-cli against build/test/tls_server (our handshake and
record layer over plain sockets, sanitized). Every line of the issue: full, resumed, HelloRetryRequest, KeyUpdate both
ways, and each refusal with the alert that the client reads."""
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PKI = os.path.join(ROOT, "build/test/tls_pki")
SERVER = os.path.join(ROOT, "build/test/tls_server")


@pytest.fixture(scope="session", autouse=True)
def pki():
    if not os.path.exists(SERVER):
        subprocess.run(["make", "-s", "build/test/tls_server"], cwd=ROOT, check=True)
    subprocess.run([os.path.join(ROOT, "tests/system/tls_pki"), PKI], check=True)


class Server:
    """One tls_server; its lines are collected as they come."""

    def __init__(self, *args, cert="server-p256-p256", ca="ca-p256.crt", env=None):
        self.lines = []
        self.p = subprocess.Popen([SERVER, "--cert", cert + ".crt", "--key", cert + ".key", "--ca", ca, *args], cwd=PKI, env={**os.environ, **(env or {})},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.port = int(self.wait(r"^listening (\d+)").group(1))

    def read(self):
        for line in self.p.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait(self, pattern, since=0, seconds=15):
        end = time.time() + seconds
        while time.time() < end:
            for line in self.lines[since:]:
                m = re.search(pattern, line)
                if m:
                    return m
            if self.p.poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in {self.lines}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        alive = self.p.poll() is None
        self.p.terminate()
        self.p.wait(10)
        self.reader.join(10)
        text = "\n".join(self.lines)
        assert "AddressSanitizer" not in text and "runtime error" not in text and "assertion failed" not in text, text
        assert alive, text


def s_client(server, *args, send=(), cert="client-p256-p256", wait=None, quiet=False):
    """Runs openssl s_client; `send` are (line, seconds to wait after it). Returns everything that it printed."""
    cmd = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", "ca-p256.crt", *args]
    if cert:
        cmd += ["-cert", cert + ".crt", "-key", cert + ".key"]
        if cert == "client-inter":
            cmd += ["-cert_chain", "inter.crt"]
    since = len(server.lines)
    p = subprocess.Popen(cmd, cwd=PKI, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        server.wait(wait or r"^(ok|refused|gone)", since)
        time.sleep(0.15)
        for line, pause in send:
            p.stdin.write(line + "\n")
            p.stdin.flush()
            time.sleep(pause)
        out, _ = p.communicate(timeout=15)
    except BrokenPipeError:
        out = p.stdout.read()
        p.wait(10)
    except Exception:
        p.kill()
        raise
    server.wait(r"^end", since)
    return out


def test_full_and_data():
    with Server() as s:
        out = s_client(s, send=[("hello there", 0.3)])
        assert "Verification: OK" in out and "hello there" in out and "TLSv1.3" in out
        assert s.wait(r"^ok resumed=0 cert=1 .*cn=device-p256-p256 subject=O=urMQTT test,CN=device-p256-p256$")
        s.wait("^data hello there")
        s.wait("^close_notify")


@pytest.mark.parametrize("suite,number", [("TLS_AES_128_GCM_SHA256", "1301"), ("TLS_AES_256_GCM_SHA384", "1302"),
                                          ("TLS_CHACHA20_POLY1305_SHA256", "1303")])
def test_each_suite(suite, number):
    with Server() as s:
        out = s_client(s, "-ciphersuites", suite, send=[("data", 0.2)])
        assert suite in out
        s.wait(f"^ok .*suite={number}")
        s.wait("^data data")


def test_without_aes_instructions_chacha20_is_preferred():
    with Server(env={"OPENSSL_ia32cap": "~0x200000200000000"}) as s:
        s_client(s, send=[("data", 0.2)])  # openssl offers AES-256-GCM first
        s.wait("^ok .*suite=1303")
        s.wait("^data data")


def test_hello_retry_request():
    with Server() as s:
        # P-384 first: a key share that the server cannot use; P-256 is what it asks for.
        out = s_client(s, "-groups", "P-384:P-256", "-msg", send=[("data", 0.2)])
        assert out.count("ServerHello") >= 2 and out.count("ClientHello") >= 2
        s.wait("^ok .*group=23 ")
        s.wait("^data data")


@pytest.mark.parametrize("suite", ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"])
def test_key_update_both_ways(suite):
    with Server() as s:
        out = s_client(s, "-ciphersuites", suite, "-msg",
                       send=[("one", 0.2), ("k", 0.2), ("two", 0.2), ("K", 0.2), ("three", 0.2), ("update", 0.3), ("four", 0.3)])
        for word in ["one", "two", "three", "updated", "four"]:
            assert re.search(rf"^{word}$", out, re.M), word
        s.wait("^client changed its key to epoch 1")
        s.wait("^client changed its key to epoch 2")
        s.wait("^client changed its key to epoch 3")  # asked for by ours
        s.wait("^data four")
        assert out.count("KeyUpdate") >= 4


def test_resumption_and_revocation(tmp_path):
    crl, session = tmp_path / "crl.pem", tmp_path / "session.pem"
    with Server("--crl", str(crl)) as s:
        s_client(s, "-sess_out", str(session), cert="client-p256-revoked", send=[("x", 0.3)])
        out = s_client(s, "-sess_in", str(session), cert="client-p256-revoked", send=[("again", 0.3)])
        s.wait("^ok resumed=1 cert=1 .*cn=revoked")
        assert "Reused, TLSv1.3" in out and "again" in out
        shutil.copy(os.path.join(PKI, "revoked.crl"), crl)
        s.p.send_signal(signal.SIGHUP)
        s.wait("^loaded", since=2)
        out = s_client(s, "-sess_in", str(session), cert="client-p256-revoked", send=[("late", 0.3)])
        s.wait("^refused reason=7 alert=44")
        assert "alert certificate revoked" in out or "alert number 44" in out, out
        # The same client by a full handshake, and another client as before.
        out = s_client(s, cert="client-p256-revoked")
        assert "alert number 44" in out
        s_client(s, send=[("fine", 0.2)])
        s.wait("^data fine")


@pytest.mark.parametrize("cert,alert,reason", [
    (None, 116, 2), ("client-other-p256", 48, 3), ("client-p256-expired", 45, 5),
])
def test_refusals(cert, alert, reason):
    with Server() as s:
        out = s_client(s, cert=cert, send=[("x", 0.3)])
        s.wait(f"^refused reason={reason} alert={alert}")
        assert f"alert number {alert}" in out, out


def test_tls12_is_named():
    with Server() as s:
        out = s_client(s, "-tls1_2")
        s.wait("^refused reason=1 alert=70")
        assert "alert number 70" in out


def test_alpn():
    with Server("--alpn") as s:
        out = s_client(s, "-alpn", "mqtt", send=[("x", 0.2)])
        assert "ALPN protocol: mqtt" in out
        s.wait("^ok .*alpn=1")
        out = s_client(s, "-alpn", "http/1.1")
        assert "alert number 120" in out
        out = s_client(s)
        assert "alert number 120" in out


def test_intermediate_and_rsa():
    with Server(cert="server-rsa-rsa") as s:
        s_client(s, "-CAfile", "ca-rsa.crt", cert="client-inter", send=[("x", 0.2)])
        s.wait("^ok .*cn=device-inter")
    with Server(cert="server-p256-rsa", ca="ca-rsa.crt") as s:
        s_client(s, cert="client-rsa-rsa", send=[("x", 0.2)])
        s.wait("^ok .*cn=device-rsa-rsa")


def test_server_closes():
    with Server() as s:
        out = s_client(s, send=[("close", 0.3)])
        assert "closed" in out
        s.wait("^data close")


def gnutls(server, *args, send=("hello",), cert="client-p256-p256"):
    cmd = ["gnutls-cli", f"--port={server.port}", "--x509cafile=ca-p256.crt", "--sni-hostname=localhost",
           "--verify-hostname=localhost", *args, "127.0.0.1"]
    if cert:
        cmd += [f"--x509certfile={cert}.crt", f"--x509keyfile={cert}.key"]
    since = len(server.lines)
    p = subprocess.Popen(cmd, cwd=PKI, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        server.wait(r"^(ok|refused|gone)", since)
        time.sleep(0.3)
        for line in send:
            if p.poll() is None:
                p.stdin.write(line + "\n")
                p.stdin.flush()
                time.sleep(0.25)
        out, _ = p.communicate(timeout=15)
    except BrokenPipeError:
        out = p.stdout.read()
        p.wait(10)
    except Exception:
        p.kill()
        raise
    server.wait(r"^end", since)
    return out


@pytest.mark.skipif(shutil.which("gnutls-cli") is None, reason="gnutls-cli is not installed")
class TestGnutls:
    def test_full(self):
        with Server() as s:
            out = gnutls(s)
            assert "Handshake was completed" in out and "hello" in out
            s.wait("^ok resumed=0 cert=1")
            s.wait("^data hello")

    def test_resumed(self):
        with Server() as s:
            since = len(s.lines)
            cmd = ["gnutls-cli", f"--port={s.port}", "--x509cafile=ca-p256.crt", "--sni-hostname=localhost",
                   "--verify-hostname=localhost", "--resume", "--waitresumption", "--x509certfile=client-p256-p256.crt",
                   "--x509keyfile=client-p256-p256.key", "127.0.0.1"]
            p = subprocess.Popen(cmd, cwd=PKI, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            s.wait("^ok resumed=1 cert=1", since)
            out, _ = p.communicate("resumed data\n", timeout=15)
            assert "This is a resumed session" in out
            s.wait("^data resumed data")

    def test_key_update(self):
        with Server() as s:
            out = gnutls(s, "--inline-commands", send=("^rekey^", "after", "update", "last"))
            s.wait("^client changed its key")
            s.wait("^data after")
            assert "updated" in out

    def test_group_mismatch(self):
        with Server() as s:
            out = gnutls(s, "--priority=NORMAL:-GROUP-ALL:+GROUP-SECP384R1:+GROUP-SECP256R1")
            assert "Handshake was completed" in out
            s.wait("^ok .*group=23 ")

    @pytest.mark.parametrize("cert,alert", [(None, 116), ("client-other-p256", 48), ("client-p256-expired", 45)])
    def test_refusals(self, cert, alert):
        with Server() as s:
            gnutls(s, cert=cert)
            s.wait(f"^refused reason=\\d+ alert={alert}")

    def test_tls12(self):
        with Server() as s:
            gnutls(s, "--priority=NORMAL:-VERS-ALL:+VERS-TLS1.2")
            s.wait("^refused reason=1 alert=70")
