# SPDX-License-Identifier: Apache-2.0
# The hosted broker as a whole, sanitized, with real clients (needs root or user namespaces, and /dev/net/tun).
system-test: $(B)/asan/urmqtt $(B)/bench/mqttmix $(B)/tools/urmqttctl ## hosted broker over TAP: mosquitto, paho, our own bytes, bad wire
	/usr/bin/python3 -m pytest -q -x tests/system/test_hosted.py tests/system/test_broker.py tests/system/test_auth.py tests/system/test_admin.py \
	  tests/system/test_dynsec.py tests/system/test_front.py tests/system/test_bridge.py tests/system/test_console.py tests/system/test_ctl.py
login-storm: $(B)/hosted/urmqtt ## 1 000 wrong logins/s: what it costs, who still comes in (by hand)
	ulimit -n 8192; /usr/bin/python3 tests/system/login_storm.py
load: $(B)/hosted/urmqtt $(B)/bench/mqttmix ## the heavy test: 100 000 messages, 200 mTLS clients, nothing lost
	/usr/bin/python3 tests/system/load.py
load-netem: $(B)/hosted/urmqtt $(B)/bench/mqttmix ## the same through Linux's netem: loss, duplicates, reordering
	/usr/bin/python3 tests/system/load.py --netem
.PHONY: system-test login-storm load load-netem
