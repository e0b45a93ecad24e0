#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packets.py DATA OUT: the packets of the shared test data as inputs of packet_fuzz, one a file (the first byte chooses the
version): those mosquitto's sequences send, and the recordings of mqtt-seeds, each for both versions. Says how many."""
import glob, hashlib, json, os, sys
import mosquitto_packets as mp

data, out = sys.argv[1:3]
os.makedirs(out, exist_ok=True)
packets = set()
for path in glob.glob(os.path.join(data, "mosquitto-packets", "*.json")):
    for group in json.load(open(path)):
        for t in group["tests"]:
            for m in t["msgs"]:
                if m["type"] in ("send", "recv"):
                    packets.add(mp.payload(m["payload"]))
for path in glob.glob(os.path.join(data, "mqtt-seeds", "*.bin")):
    packets.add(open(path, "rb").read())
for p in packets:
    for version in (0, 1):
        b = bytes([version]) + p
        if len(b) <= 8192:
            with open(os.path.join(out, hashlib.sha1(b).hexdigest()), "wb") as f:
                f.write(b)
print("packets: %d seeds" % (2 * len(packets)))
