# SPDX-License-Identifier: Apache-2.0
# MQTT.js in Node and in headless Chromium (by hand: npm and a browser are large). The versions are locked in
# tests/js/package-lock.json; a second run works offline.
$(B)/js/node_modules/.package-lock.json: tests/js/package.json tests/js/package-lock.json
	@for p in node npm chromium; do command -v $$p >/dev/null || \
	  { echo "js-test: '$$p' is missing: install the Debian packages nodejs, npm, chromium" >&2; exit 2; }; done
	@mkdir -p $(B)/js && cp tests/js/package.json tests/js/package-lock.json $(B)/js/
	cd $(B)/js && npm ci --no-audit --no-fund
js-test: $(B)/js/node_modules/.package-lock.json $(B)/asan/urmqtt ## MQTT.js: TCP, TLS, ws, wss in Node; wss in Chromium
	@cp tests/js/client.js tests/js/page.html $(B)/js/
	/usr/bin/python3 -m pytest -q tests/js/test_js.py
.PHONY: js-test
