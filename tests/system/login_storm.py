#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The password storm: 1 000 wrong logins a second from one prefix, at 101 and at 1 000 iterations, for some seconds each.
Fails when hashing takes more than 10 % of the time, when a correct login from another prefix takes more than 3 s, or
when an established client's PUBACK takes more than max(2x, 2 ms) of the time it takes without the storm beside a program
that burns as much as the storm's generator (median; the 90th percentile is printed, it is the machine's on a loaded
one)."""
import argparse
import multiprocessing
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lab  # noqa: E402

WIDE = "10.9.1.1"


def connect_bytes(client_id, user, password):
    return lab.packet(0x10, lab.utf8("MQTT") + bytes([4, 0xC2, 0, 0]) + lab.utf8(client_id) + lab.utf8(user) +
                      lab.utf8(password))


def login(source, user, password, client_id, timeout=12):
    """Seconds to CONNACK and its code; (timeout, None) without one."""
    start = time.monotonic()
    with socket.socket() as s:
        s.settimeout(timeout)
        s.bind((source, 0))
        try:
            s.connect((lab.BROKER, lab.PLAIN))
            s.sendall(connect_bytes(client_id, user, password))
            answer = s.recv(4)
        except OSError:
            answer = b""
        return time.monotonic() - start, answer[3] if len(answer) == 4 else None


def storm(rate, seconds, result):
    """Opens `rate` connections a second, each with a wrong password or an unknown user; lets the broker close them."""
    poll, open_, sent, closed = select.epoll(), {}, 0, 0
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        due = int((time.monotonic() - start) * rate) - sent
        for _ in range(min(due, 50)):
            s = socket.socket()
            s.setblocking(False)
            s.bind((lab.LINUX, 0))
            s.connect_ex((lab.BROKER, lab.PLAIN))
            open_[s.fileno()] = (s, sent)
            poll.register(s.fileno(), select.EPOLLOUT)
            sent += 1
        for fd, event in poll.poll(0.002):
            s, n = open_[fd]
            if event & select.EPOLLOUT and not event & (select.EPOLLHUP | select.EPOLLERR):
                user = "alice" if n % 2 else f"nobody{n}"
                try:
                    s.send(connect_bytes(f"storm{n}", user, f"wrong{n}"))
                    poll.modify(fd, select.EPOLLIN)
                    continue
                except OSError:
                    pass
            poll.unregister(fd)
            s.close()
            del open_[fd]
            closed += 1
    result.put((sent, closed, len(open_)))


def established():
    s = socket.create_connection((lab.BROKER, lab.PLAIN), timeout=10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(connect_bytes("steady", "alice", "secret"))
    assert s.recv(4)[3] == 0
    return s


def burn(seconds):
    """The storm's own work without the storm: half of a core, in pieces."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        piece = time.monotonic() + 0.002
        while time.monotonic() < piece:
            pass
        time.sleep(0.002)


def residence(s, seconds):
    """An established client's time from PUBLISH to PUBACK, in ms, 200 a second."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        s.sendall(lab.packet(0x32, lab.utf8("t") + b"\0\1" + b"x"))
        assert s.recv(4)[0] == 0x40
        times.append((time.monotonic() - start) * 1000)
        time.sleep(0.005)
    return times


def p90(times):
    return statistics.quantiles(times, n=10)[8]


def run(iterations, rate, seconds, folder):
    conf = os.path.join(folder, "conf")
    os.makedirs(conf, exist_ok=True)
    subprocess.run(["mosquitto_passwd", "-c", "-I", str(iterations), "-b", f"{conf}/pw", "alice", "secret"], check=True)
    pki = os.path.join(folder, "pki")
    if not os.path.exists(pki):
        os.makedirs(pki)
        lab.make_pki(pki)
    b = lab.Broker(folder, pki, config=f"network {lab.BROKER}/16\nlistener {lab.PLAIN}\npassword_file pw\n",
                   binary="hosted")
    steady = established()
    hog = multiprocessing.Process(target=burn, args=(seconds / 2,))
    hog.start()
    calm = residence(steady, seconds / 2)
    hog.join()
    result = multiprocessing.Queue()
    p = multiprocessing.Process(target=storm, args=(rate, seconds + 3, result))
    p.start()
    storm_start = time.monotonic()
    time.sleep(2)
    begin = time.monotonic()
    logins = multiprocessing.Queue()

    def correct():
        while time.monotonic() - begin < seconds - 2:
            logins.put(login(WIDE, "alice", "secret", "elsewhere"))
            time.sleep(0.5)
        logins.put(None)

    q = multiprocessing.Process(target=correct)
    q.start()
    busy = residence(steady, seconds - 1)
    steady.close()
    got = list(iter(logins.get, None))
    q.join()
    sent, closed, left = result.get()
    p.join()
    took = time.monotonic() - storm_start
    b.stop()
    text = "\n".join(b.lines)
    good, bad, refused, ms = map(int, re.search(r"logins: (\d+) good, (\d+) bad, (\d+) without a place, (\d+) ms",
                                                text).groups())
    share = ms / 1000 / took
    slowest = max(t for t, _ in got)
    bar = max(2 * statistics.median(calm), statistics.median(calm) + 2)
    print(f"{iterations:5} iterations, {sent / (seconds + 3):.0f} wrong logins/s: {bad} checked, {refused} without a place; hashing "
          f"{100 * share:.1f} % of a core\n"
          f"      correct login from another prefix: {len(got)} of {len(got)}, slowest {slowest * 1000:.0f} ms\n"
          f"      PUBACK of an established client: median {statistics.median(calm):.2f} -> {statistics.median(busy):.2f} ms "
          f"(bar {bar:.2f}), 90 % {p90(calm):.2f} -> {p90(busy):.2f} ms; load {os.getloadavg()[0]:.0f}")
    failed = []
    if share > 0.10:
        failed.append("hashing takes more than 10 % of a core")
    if slowest > 3 or any(code != 0 for _, code in got):
        failed.append("a correct login from another prefix was late or refused")
    if statistics.median(busy) > bar:
        failed.append("established clients wait too long")
    if sent < 0.8 * rate * (seconds + 3):
        failed.append("the storm itself was too weak")
    for f in failed:
        print(f"      FAILED: {f}")
    return not failed


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--rate", type=int, default=1000)
    a.add_argument("--seconds", type=int, default=10)
    o = a.parse_args()
    lab.enter_namespace()
    lab.make_tap()
    lab.sh(f"ip addr add {WIDE}/16 dev tap0; ip addr add {lab.LINUX}/16 dev tap0")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for iterations in (101, 1000):
            good &= run(iterations, o.rate, o.seconds, folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
