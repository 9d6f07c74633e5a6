#!/usr/bin/env python3
"""Compares programs by what a flood costs them: wall time, and the CPU time of each process, which other work on the machine disturbs less.

    cargo build --release && python3 bench/flood.py target/release/trunkline /path/to/another/trunkline …

The fake CLI prints FLOOD_LINES lines of 300 bytes in one turn, with CLIENTS WebSocket clients attached. The programs take turns,
ROUNDS times; medians count. Talks to 127.0.0.1 only, is bounded, and stops what it starts.
"""

import base64
import json
import os
import pathlib
import socket
import statistics
import sys
import threading
import time
import urllib.parse

from figures import FAKE, FLOOD_LINES, LIMIT_S, Daemon, children, memory, wait_until

ROUNDS = int(os.environ.get("ROUNDS", "5"))
CLIENTS = [int(count) for count in os.environ.get("CLIENTS", "0,1").split(",")]
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """Seconds that a process has computed, in its own code and in the kernel."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


class Client(threading.Thread):
    """A WebSocket client that takes what it is given, up to the end of the turn."""

    def __init__(self, daemon, session):
        super().__init__()
        url = urllib.parse.urlsplit(daemon.url)
        self.socket = socket.create_connection((url.hostname, url.port), timeout=LIMIT_S)
        self.socket.sendall((
            f"GET /v1/sessions/{session}/ws HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {daemon.token}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n").encode())
        self.room = bytearray(1 << 20)
        self.bytes = self.socket.recv_into(self.room)
        if not self.room.startswith(b"HTTP/1.1 101"):
            sys.exit(f"no WebSocket: {bytes(self.room[:200])}")
        self.start()

    def run(self):
        tail = b""
        while b'"type":"result"' not in tail:
            count = self.socket.recv_into(self.room)
            if count == 0:
                return
            self.bytes += count
            # The mark may lie across two reads.
            tail = tail[-32:] + bytes(self.room[max(0, count - 8192):count])
        self.cpu = time.thread_time()
        self.socket.close()


def flood(program, clients):
    """The costs of one flood: seconds by name, and the daemon's memory after it in kilobytes."""
    actions = json.dumps([{"flood": FLOOD_LINES, "bytes": 300}])
    with Daemon(FAKE, program=program) as daemon:
        session = daemon.create()["id"]
        wait_until("idle", lambda: daemon.ask("GET", f"/v1/sessions/{session}")["state"] == "idle")
        attached = [Client(daemon, session) for _ in range(clients)]
        [keeper] = children(daemon.process.pid)
        [cli] = children(keeper)
        processes = {"daemon": daemon.process.pid, "keeper": keeper, "fake CLI": cli}
        before = {name: cpu_s(pid) for name, pid in processes.items()}
        begun = time.monotonic()
        daemon.ask("POST", f"/v1/sessions/{session}/messages?wait=result", {"text": f"FAKE:{actions}:END"})
        for client in attached:
            client.join(LIMIT_S)
        taken = {"wall": time.monotonic() - begun}
        for client in attached:
            if client.bytes < FLOOD_LINES * 300:
                sys.exit(f"a client got {client.bytes} bytes only")
        taken |= {name: cpu_s(pid) - before[name] for name, pid in processes.items()}
        taken["daemon kB"] = memory(daemon.process.pid)["Anonymous"]
        return taken


def main():
    programs = sys.argv[1:]
    if not programs:
        sys.exit(__doc__)
    for clients in CLIENTS:
        rounds = {program: [] for program in programs}
        for _ in range(ROUNDS):
            for program, all_taken in rounds.items():
                all_taken.append(flood(program, clients))
        print(f"{FLOOD_LINES} lines of 300 bytes, {clients} WebSocket clients, median of {ROUNDS}, taken in turns")
        for program, all_taken in rounds.items():
            median = {name: statistics.median(taken[name] for taken in all_taken) for name in all_taken[0]}
            rate = FLOOD_LINES / median["wall"] / 1000
            seconds = ", ".join(f"{name} {median[name]:.2f} s" for name in ("wall", "fake CLI", "keeper", "daemon"))
            print(f"  {program}\n    {rate:.0f} thousand lines/s; {seconds}; daemon's own memory afterwards {median['daemon kB']:.0f} kB")


if __name__ == "__main__":
    main()
