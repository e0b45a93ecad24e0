#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turns Wycheproof's JSON files into one flat binary that the C runner reads: generate.py FOLDER OUT.

File: "WYCHE1\\n\\0", then records, then a zero byte. Record: set u8 (see SETS), result u8 (0 invalid, 1 valid,
2 acceptable), test case u32, number of fields u8, then each field as length u32 and bytes. Numbers are big-endian."""
import json
import os
import struct
import sys

SETS = [  # file, set number, fields of a test (g.: of its group)
    ("aes_gcm_test.json", 1, ["key", "iv", "aad", "msg", "ct", "tag"]),
    ("chacha20_poly1305_test.json", 2, ["key", "iv", "aad", "msg", "ct", "tag"]),
    ("x25519_test.json", 3, ["private", "public", "shared"]),
    ("ecdh_secp256r1_ecpoint_test.json", 4, ["private", "public", "shared"]),
    ("ecdsa_secp256r1_sha256_test.json", 5, ["g.uncompressed", "msg", "sig"]),
    ("ed25519_test.json", 6, ["g.pk", "msg", "sig"]),
    ("hkdf_sha256_test.json", 7, ["ikm", "salt", "info", "size", "okm"]),
]
RESULTS = {"invalid": 0, "valid": 1, "acceptable": 2}


def field(group, test, name):
    value = group["publicKey"][name[2:]] if name.startswith("g.") else test[name]
    if isinstance(value, int):
        return struct.pack(">I", value)
    return bytes.fromhex("0" + value if len(value) % 2 else value)


def main(folder, out):
    data = bytearray(b"WYCHE1\n\0")
    for name, number, fields in SETS:
        for group in json.load(open(os.path.join(folder, name)))["testGroups"]:
            for test in group["tests"]:
                data += struct.pack(">BBIB", number, RESULTS[test["result"]], test["tcId"], len(fields))
                for f in fields:
                    value = field(group, test, f)
                    data += struct.pack(">I", len(value)) + value
    open(out, "wb").write(data + b"\0")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: generate.py FOLDER OUT")
    main(sys.argv[1], sys.argv[2])
