# SPDX-License-Identifier: Apache-2.0
"""Proves: after clients that connect, subscribe, publish, take over, die and leave half-way, plain and over mTLS, every pool,
timer and heap of the sanitized broker is back at its baseline, without a finding. 30 minutes of it: `make churn`."""
import churn


def test_churn_leaves_nothing(namespace, pki, tmp_path):
    total = churn.run(str(tmp_path), pki, 10, warm_up=3, rate=1000, piece=10)
    assert total["killed"] > 20 and total["ended by the broker"] > 20 and total["garbage"] > 5
