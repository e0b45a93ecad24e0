#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two TAP devices joined by a bad wire: frames are lost, doubled, delayed past later ones, and damaged with a checksum
that no longer fits. No offload on either side, so segments and checksums are real. A fixed seed. wire.py starts it.
Usage: lossy.py TAP_A TAP_B LOSS DUPLICATE REORDER DAMAGE (in thousandths) DELAY_MS SEED"""
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454ca, 2, 0x1000


def attach(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def main():
    a, b = attach(sys.argv[1]), attach(sys.argv[2])
    loss, double, reorder, damage = (int(x) for x in sys.argv[3:7])
    print("up", flush=True)  # from now on the devices may move into another namespace
    usual = float(sys.argv[7]) / 1000
    other, late, order, rng = {a: b, b: a}, [], 0, random.Random(int(sys.argv[8]))
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else 1.0
        for fd in select.select([a, b], [], [], wait)[0]:
            frame = os.read(fd, 65536)
            if rng.randrange(1000) < loss:
                continue
            if rng.randrange(1000) < damage and len(frame) > 60:
                at = rng.randrange(34, len(frame))
                frame = frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1:]
            for _ in range(2 if rng.randrange(1000) < double else 1):
                delay = usual + (rng.uniform(0.001, 0.019) if rng.randrange(1000) < reorder else 0)
                order += 1
                heapq.heappush(late, (time.monotonic() + delay, order, other[fd], frame))
        while late and late[0][0] <= time.monotonic():
            _, _, fd, frame = heapq.heappop(late)
            try:
                os.write(fd, frame)
            except OSError:
                pass  # the queue is full: one more lost frame


if __name__ == "__main__":
    main()
