#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays mosquitto's packet sequences against a broker without TLS: mosquitto_packets.py HOST PORT [-v] [DATA [FILE...]].

Answers are compared by meaning: the same packet type, packet identifier and class of result (granted QoS, success or
failure), for PUBLISH also topic, payload, QoS and retain. Properties of answers are the broker's own affair, and so is
which failure it names, and whether it says DISCONNECT before it closes. Packets that are expected one behind the other without
one sent in between may come in any order, but those of one kind. Prints a line a file and `mosquitto-packets: N passed, N failed`; exits 0 when the number that failed is at most --allow N (default 0)."""
import argparse, glob, json, os, re, socket, struct, sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "..", "shared", "data", "mosquitto-packets")


def varint(v):
    out = bytearray()
    while True:
        b = v & 0x7F
        v >>= 7
        out.append(b | (0x80 if v else 0))
        if not v:
            return bytes(out)


def payload(text):
    out = b""
    for w in re.findall(r"'[^']*'|\S+", text):
        k, rest = w[0], w[1:]
        if k == "'":
            out += w[1:-1].encode()
        elif k == "i":
            out += bytes([int(rest)])
        elif k in "Hkms":
            out += struct.pack(">H", int(rest))
        elif k == "L":
            out += struct.pack(">I", int(rest))
        elif k in "vr":
            out += varint(int(rest))
        else:
            out += bytes.fromhex(w)
    return out


class Closed(Exception):
    pass


class Peer:
    def __init__(self, host, port):
        self.s = socket.create_connection((host, port), 5)
        self.s.settimeout(2)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def send(self, data):
        try:
            self.s.sendall(data)
        except OSError:
            pass  # what comes back, or that nothing does, is judged

    def more(self):
        try:
            d = self.s.recv(65536)
        except socket.timeout:
            raise
        except OSError:
            raise Closed
        if not d:
            raise Closed
        self.buf += d

    def packet(self):
        while True:
            n, shift, pos = 0, 0, 1
            while pos < len(self.buf) and pos <= 4:
                n |= (self.buf[pos] & 0x7F) << shift
                shift += 7
                pos += 1
                if not self.buf[pos - 1] & 0x80:
                    if len(self.buf) >= pos + n:
                        out, self.buf = self.buf[:pos + n], self.buf[pos + n:]
                        return out
                    break
            self.more()


def body_of(p):
    pos = 1
    while p[pos] & 0x80:
        pos += 1
    return p[pos + 1:]


def skip_props(b):
    n, shift, pos = 0, 0, 0
    while True:
        n |= (b[pos] & 0x7F) << shift
        shift += 7
        pos += 1
        if not b[pos - 1] & 0x80:
            return b[pos + n:]


def result(code):
    return code if code < 3 else "success" if code < 0x80 else "failure"


def meaning(p, ver):
    """A comparable value of a packet a server sends."""
    t, b = p[0] >> 4, body_of(p)
    try:
        if t == 2:
            return t, b[0] & 1, "failure" if b[1] else "success"
        if t == 3:
            qos = p[0] >> 1 & 3
            n = b[0] << 8 | b[1]
            topic, rest = b[2:2 + n], b[2 + n:]
            mid = 0
            if qos:
                mid, rest = rest[0] << 8 | rest[1], rest[2:]
            if ver == 5:
                rest = skip_props(rest)
            return t, p[0] & 0x0F, topic, mid, rest
        if t in (4, 5, 6, 7):
            code = b[2] if len(b) > 2 else 0
            return t, b[:2], "failure" if code >= 0x80 else "success"
        if t in (9, 11):
            codes = b[2:]
            if ver == 5:
                codes = skip_props(codes)
            if t == 11:
                return t, b[:2], len(codes), ["failure" if c >= 0x80 else "success" for c in codes]
            return t, b[:2], [result(c) if c < 0x80 else "failure" for c in codes]
        if t == 14:
            return (t,)
    except IndexError:
        pass
    return t, b


def connect_packet(client_id, ver):
    name = client_id.encode()
    b = (b"\x00\x06MQIsdp" if ver == 3 else b"\x00\x04MQTT") + bytes([ver, 2]) + b"\x00\x3c" + (b"\x00" if ver == 5 else b"")
    b += struct.pack(">H", len(name)) + name
    return b"\x10" + varint(len(b)) + b


def external_publish(host, port, m):
    p = Peer(host, port)
    p.send(connect_packet("helper", 4))
    p.packet()
    topic, qos = m["topic"].encode(), m["qos"]
    b = struct.pack(">H", len(topic)) + topic + (b"\x00\x01" if qos else b"") + m["payload"].encode()
    p.send(bytes([0x30 | qos << 1]) + varint(len(b)) + b)
    if qos:
        p.packet()
    if qos == 2:
        p.send(b"\x62\x02\x00\x01")
        p.packet()
    p.send(b"\xe0\x00")
    p.s.close()


def drain_to_close(peer):
    """True when the broker closes within the time; a last DISCONNECT or CONNACK is its manners."""
    try:
        while True:
            peer.packet()
    except Closed:
        return True
    except socket.timeout:
        return False


def play(host, port, test, ver):
    """None, or what was wrong."""
    peer = Peer(host, port)
    expect_close = test.get("expect_disconnect", True)
    try:
        if test.get("connect", True):
            peer.send(connect_packet("test", ver))
            if meaning(peer.packet(), ver) != (2, 0, "success"):
                return "not connected"
        wanted = []
        for m in test["msgs"] + [{"type": "end"}]:
            if m["type"] == "recv":
                wanted.append(meaning(payload(m["payload"]), ver))
                continue
            while wanted:
                try:
                    got = meaning(peer.packet(), ver)
                except Closed:
                    if wanted[0][0] == 14 or (wanted[0][0] == 2 and wanted[0][2] == "failure"):
                        return None if expect_close else "closed"
                    raise
                first = [w for w in wanted if w[0] == got[0]][:1]
                if first != [got]:
                    return "wanted %r, got %r" % (wanted[0], got)
                wanted.remove(got)
            if m["type"] == "send":
                peer.send(payload(m["payload"]))
            elif m["type"] == "external_publish":
                external_publish(host, port, m)
        if expect_close:
            return None if drain_to_close(peer) else "not closed"
        peer.send(b"\xc0\x00")
        got = peer.packet()
        return None if got == b"\xd0\x00" else "unexpected %s" % got.hex()
    except Closed:
        return "closed early"
    except socket.timeout:
        return "no answer"
    finally:
        peer.s.close()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("host")
    a.add_argument("port", type=int)
    a.add_argument("data", nargs="?", default=DATA)
    a.add_argument("files", nargs="*")
    a.add_argument("-v", action="store_true")
    a.add_argument("--allow", type=int, default=0)
    o = a.parse_args()
    passed = failed = 0
    for path in sorted(glob.glob(os.path.join(o.data, "*.json"))):
        name = os.path.basename(path)[:-5]
        if o.files and name not in o.files:
            continue
        ok = bad = 0
        for group in json.load(open(path)):
            for t in group["tests"]:
                ver = t.get("ver", group.get("ver", 4))
                t = {**{k: group[k] for k in ("connect", "expect_disconnect") if k in group}, **t}
                why = play(o.host, o.port, t, ver)
                ok, bad = ok + (why is None), bad + (why is not None)
                if why and o.v:
                    print("  %s | %s | %s: %s" % (name, group.get("group", ""), t["name"], why), flush=True)
        print("%-20s %4d passed %4d failed" % (name, ok, bad), flush=True)
        passed, failed = passed + ok, failed + bad
    print("mosquitto-packets: %d passed, %d failed" % (passed, failed))
    sys.exit(0 if failed <= o.allow and passed else 1)


if __name__ == "__main__":
    main()
