# SPDX-License-Identifier: Apache-2.0
"""The short form runs by default; `--matrix` adds every firmware, machine and medium (make qemu-matrix)."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_addoption(parser):
    parser.addoption("--matrix", action="store_true", help="every combination, some minutes")


def pytest_configure(config):
    config.addinivalue_line("markers", "matrix: only with --matrix")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--matrix"):
        for item in items:
            if "matrix" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="only with --matrix"))
