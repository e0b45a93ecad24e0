# SPDX-License-Identifier: Apache-2.0
# The hosted broker as a whole, sanitized, with real clients (needs root or user namespaces, and /dev/net/tun).
system-test: $(B)/asan/urmqtt $(B)/bench/mqttmix ## hosted broker over TAP: mosquitto, paho, our own bytes, bad wire
	/usr/bin/python3 -m pytest -q -x tests/system/test_hosted.py tests/system/test_broker.py tests/system/test_auth.py
load: $(B)/hosted/urmqtt $(B)/bench/mqttmix ## the heavy test: 100 000 messages, 200 mTLS clients, nothing lost
	/usr/bin/python3 tests/system/load.py
load-netem: $(B)/hosted/urmqtt $(B)/bench/mqttmix ## the same through Linux's netem: loss, duplicates, reordering
	/usr/bin/python3 tests/system/load.py --netem
.PHONY: system-test load load-netem
