# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system tests: one namespace a run, one PKI, one sanitized broker for a module's tests."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lab  # noqa: E402


@pytest.fixture(scope="session")
def namespace():
    lab.enter_namespace()
    lab.make_tap()


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("pki"))
    lab.make_pki(folder)
    return folder


@pytest.fixture(scope="module")
def broker(namespace, pki, tmp_path_factory):
    b = lab.Broker(str(tmp_path_factory.mktemp("broker")), pki)
    yield b
    assert b.stop() == 0


@pytest.fixture
def start(namespace, pki, tmp_path):
    """Starts brokers of a test's own; what the test does not stop is stopped and checked at its end."""
    brokers = []

    def begin(**options):
        brokers.append(lab.Broker(str(tmp_path), pki, **options))
        return brokers[-1]

    yield begin
    for b in brokers:
        b.stop()
