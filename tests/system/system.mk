# SPDX-License-Identifier: Apache-2.0
# The hosted broker as a whole, sanitized, with real clients (needs root or user namespaces, and /dev/net/tun).
# One a line: several people add to it.
system_tests := hosted broker auth admin dynsec known_conf front bridge
system_tests += console ctl churn
system_tests += control_config
system_tests += scram
system_tests += trace
system_tests += cores broker_cores
system_tests += disk
system_tests += reports
system-test: $(B)/asan/urmqtt $(B)/bench/mqttmix $(B)/bench/mqttchurn $(B)/tools/urmqttctl $(B)/tools/urmqtt-stamp ## hosted broker over TAP: mosquitto, paho, our own bytes, bad wire
	/usr/bin/python3 -m pytest -q -x $(system_tests:%=tests/system/test_%.py)
login-storm: $(B)/hosted/urmqtt ## 1 000 wrong logins/s: what it costs, who still comes in (by hand)
	ulimit -n 8192; /usr/bin/python3 tests/system/login_storm.py
# MINUTES=10 for less.
MINUTES ?= 30
churn: $(B)/asan/urmqtt $(B)/bench/mqttchurn ## 30 minutes of connect, subscribe, publish, kill, take over under ASan and UBSan (MINUTES=)
	/usr/bin/python3 tests/system/churn.py --minutes $(MINUTES)
load: $(B)/hosted/urmqtt $(B)/bench/mqttmix ## the heavy test: 100 000 messages, 200 mTLS clients, nothing lost
	/usr/bin/python3 tests/system/load.py
load-netem: $(B)/hosted/urmqtt $(B)/bench/mqttmix ## the same through Linux's netem: loss, duplicates, reordering
	/usr/bin/python3 tests/system/load.py --netem
.PHONY: churn system-test login-storm load load-netem
