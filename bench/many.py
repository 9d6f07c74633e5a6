#!/usr/bin/env python3
"""Measures one WebSocket with many sessions, quiet ones beside floods; and the first snapshot of few and of many sessions.

    cargo build --release && python3 bench/many.py [socket] [snapshot]

With the fake CLI. Talks to 127.0.0.1 only, is bounded, and stops what it starts.
"""

import base64
import datetime
import json
import os
import signal
import socket
import sqlite3
import statistics
import struct
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid

from figures import FAKE, LIMIT_S, Daemon, wait_until

SESSIONS = int(os.environ.get("SESSIONS", "100"))
FLOODS = int(os.environ.get("FLOODS", "10"))
# Lines a second of each flood; they go on for as long as is measured.
RATE = int(os.environ.get("RATE", "1000"))
ASKED = int(os.environ.get("ASKED", "300"))
SNAPSHOTS = int(os.environ.get("SNAPSHOTS", "9"))


class Socket(threading.Thread):
    """A WebSocket client of many sessions that takes what it is given, and knows when each thing came."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        url = urllib.parse.urlsplit(daemon.url)
        self.socket = socket.create_connection((url.hostname, url.port), timeout=LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((
            f"GET /v1/ws HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {daemon.token}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n").encode())
        self.reader = self.socket.makefile("rb", buffering=1 << 20)
        if b" 101 " not in self.reader.readline():
            sys.exit("no WebSocket")
        while self.reader.readline() != b"\r\n":
            pass
        # Sessions whose records are timed.
        self.timed = set()
        self.taken = []
        self.turns = 0
        self.snapshots = 0
        self.records = 0
        self.news = threading.Condition()
        self.start()

    def run(self):
        while True:
            head = self.reader.read(2)
            if len(head) < 2 or head[0] & 0x0F == 8:
                return
            size = head[1] & 0x7F
            if size == 126:
                [size] = struct.unpack(">H", self.reader.read(2))
            elif size == 127:
                [size] = struct.unpack(">Q", self.reader.read(8))
            frame = self.reader.read(size)
            now = time.time()
            is_snapshot = b'"type":"trunkline.snapshot"' in frame[:160]
            self.records += not is_snapshot
            if not is_snapshot and frame[15:51] not in self.timed:
                continue
            with self.news:
                if is_snapshot:
                    self.snapshots += 1
                else:
                    record = json.loads(frame)
                    if "src" in record:
                        at = datetime.datetime.fromisoformat(record["ts"].replace("Z", "+00:00"))
                        self.taken.append((now - at.timestamp()) * 1000)
                        self.turns += record["data"].get("type") == "result"
                self.news.notify()

    def send(self, **frame):
        data = json.dumps(frame).encode()
        size = struct.pack(">BBH", 0x81, 0xFE, len(data))
        # A mask of zeros leaves the bytes as they are.
        self.socket.sendall(size + bytes(4) + data)

    def wait(self, what, condition):
        with self.news:
            if not self.news.wait_for(condition, LIMIT_S):
                sys.exit(f"gave up waiting: {what}")


def idle(daemon, session):
    wait_until("idle", lambda: daemon.ask("GET", f"/v1/sessions/{session}")["state"] == "idle")


def timed(client, sessions):
    """Milliseconds of each record of the quiet sessions from its time in the journal to the client, one turn after the other."""
    client.taken.clear()
    client.timed = {session.encode() for session in sessions}
    for number in range(ASKED):
        turns = client.turns
        client.send(session_id=sessions[number % len(sessions)], type="user",
                    message={"role": "user", "content": "FAKE:[]:END"})
        client.wait("the end of a turn", lambda: client.turns > turns)
    client.timed = set()
    return list(client.taken)


def percentile(taken, percent):
    return sorted(taken)[min(len(taken) - 1, len(taken) * percent // 100)]


def measure_socket():
    with Daemon(FAKE, TRUNKLINE_LIMITS_LIVE_PROCESSES=str(SESSIONS + 10)) as daemon:
        sessions = [daemon.create()["id"] for _ in range(SESSIONS)]
        for session in sessions:
            idle(daemon, session)
        client = Socket(daemon)
        for session in sessions:
            client.send(type="trunkline.subscribe", session_id=session)
        client.wait("the snapshots", lambda: client.snapshots == SESSIONS)
        floods, quiet = sessions[:FLOODS], sessions[FLOODS:]
        timed(client, quiet)
        alone = timed(client, quiet)
        before = client.records
        for session in floods:
            actions = json.dumps([{"flood": RATE * LIMIT_S, "bytes": 300, "rate": RATE}])
            daemon.ask("POST", f"/v1/sessions/{session}/messages", {"text": f"FAKE:{actions}:END"})
        wait_until("the floods", lambda: client.records > before + RATE * FLOODS)
        before, begun = client.records, time.monotonic()
        beside = timed(client, quiet)
        rate = (client.records - before) / (time.monotonic() - begun)
        print(f"{SESSIONS} sessions on one socket, {ASKED} turns in {len(quiet)} quiet ones: journal to client, in ms")
        for name, taken in (("without floods", alone), (f"beside {FLOODS} floods, {rate:.0f} records/s", beside)):
            print(f"  {name}: {len(taken)} records, median {statistics.median(taken):.2f}, p99 {percentile(taken, 99):.2f}")
        print(f"  ratio of the p99: {percentile(beside, 99) / percentile(alone, 99):.2f}")


def snapshot(daemon):
    """Milliseconds from the request to the whole first event, and how many sessions are in it."""
    request = urllib.request.Request(
        daemon.url + "/v1/events?limit=10000", headers={"Authorization": f"Bearer {daemon.token}"})
    begun = time.monotonic()
    with urllib.request.urlopen(request, timeout=LIMIT_S) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                taken = (time.monotonic() - begun) * 1000
                return taken, len(json.loads(line[6:])["sessions"])
    sys.exit("no snapshot")


def multiply(daemon, count):
    """Gives the stopped session so many copies in the database of a daemon that does not run."""
    database = sqlite3.connect(daemon.path / "data/trunkline.db")
    database.row_factory = sqlite3.Row
    [row] = database.execute("SELECT * FROM sessions").fetchall()
    columns = row.keys()
    for _ in range(count - 1):
        copy = dict(row) | {"id": str(uuid.uuid4()), "cli_session_id": str(uuid.uuid4())}
        database.execute(
            f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            [copy[name] for name in columns])
    database.commit()
    database.close()


def measure_snapshot():
    medians = {}
    for count in (10, 1000):
        firsts, laters = [], []
        for _ in range(SNAPSHOTS):
            daemon = Daemon(FAKE)
            with daemon:
                session = daemon.create()["id"]
                idle(daemon, session)
                daemon.process.send_signal(signal.SIGTERM)
                daemon.process.wait(LIMIT_S)
                multiply(daemon, count)
                daemon.start()
                daemon.__enter__()
                for taken in (firsts, laters):
                    milliseconds, sessions = snapshot(daemon)
                    if sessions != count:
                        sys.exit(f"{sessions} sessions in place of {count}")
                    taken.append(milliseconds)
        medians[count] = statistics.median(firsts)
        print(f"snapshot of {count} sessions: the first {medians[count]:.1f} ms, a later one {statistics.median(laters):.1f} ms")
    print(f"  {medians[1000]:.1f} ms, where 3 times that of 10 and 100 ms is {3 * medians[10] + 100:.1f} ms")


def main():
    wanted = sys.argv[1:] or ["socket", "snapshot"]
    if "socket" in wanted:
        measure_socket()
    if "snapshot" in wanted:
        measure_snapshot()


if __name__ == "__main__":
    main()
