#!/usr/bin/env python3
"""Measures how long a daemon takes to answer again with many live sessions, beside one with none, in one run.

    cargo build --release && python3 bench/recovery.py

The sessions are fake CLIs that have answered one prompt and, with RECORDS, printed so many lines of 300 bytes each in their
last run: a daemon reads that from its start. Talks to 127.0.0.1 only, is bounded, and stops what it starts.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

from figures import FAKE, LIMIT_S, Daemon, wait_until

PROGRAM = pathlib.Path(os.environ.get("PROGRAM", pathlib.Path(__file__).resolve().parent.parent / "target/release/trunkline"))
SESSIONS = int(os.environ.get("SESSIONS", "100"))
RECORDS = int(os.environ.get("RECORDS", "0"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
GOAL_MS = 2000
SETTINGS = {"TRUNKLINE_LIMITS_LIVE_PROCESSES": "1000", "TRUNKLINE_LIMITS_LIVE_PER_CWD": "0",
            "TRUNKLINE_LIMITS_QUEUED_STARTS": "1000"}


class Restarted(Daemon):
    """A daemon that ends and starts again on the same directory."""

    def __init__(self):
        super().__init__(FAKE, program=PROGRAM, **SETTINGS)

    def again(self, kill):
        """Milliseconds from the start of the next daemon to its first answer."""
        if kill:
            self.process.kill()
        else:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)
        told = self.path / "data/daemon.json"
        told.unlink(missing_ok=True)
        begun = time.monotonic()
        self.start(TRUNKLINE_STOP_ON_SHUTDOWN="detach")
        self.url = json.loads(wait_until("the daemon", lambda: told.exists() and told.read_text()))["url"]
        live = self.live()
        return (time.monotonic() - begun) * 1000, live

    def live(self):
        items = self.ask("GET", "/v1/sessions?limit=200")["items"]
        return sum(session["state"] == "idle" and session["cli"]["pid"] is not None for session in items)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)
        self.start(TRUNKLINE_STOP_ON_SHUTDOWN="stop")
        wait_until("the daemon", (self.path / "data/daemon.json").exists)


def measure(daemon, sessions):
    times = {"kill -9": [], "detach": []}
    for _ in range(ROUNDS):
        for kind, taken in times.items():
            ms, live = daemon.again(kind == "kill -9")
            if live != sessions:
                sys.exit(f"{live} of {sessions} sessions are there after a {kind}")
            taken.append(ms)
    return times


def main():
    if not PROGRAM.exists():
        sys.exit("cargo build --release first")
    with Restarted() as daemon:
        daemon.again(True)
        none = measure(daemon, 0)
        prompt = f'FAKE:{json.dumps([{"flood": RECORDS, "bytes": 300}])}:END' if RECORDS else "hello"
        for _ in range(SESSIONS):
            daemon.create(prompt=prompt)
        wait_until("all are idle", lambda: daemon.live() == SESSIONS)
        many = measure(daemon, SESSIONS)
        daemon.stop()
    print(f"restart of the daemon with {SESSIONS} live sessions of {RECORDS} records, {ROUNDS} times each, to the answer that lists them")
    for kind, taken in many.items():
        base, median = statistics.median(none[kind]), statistics.median(taken)
        print(f"  {kind:8} no session {base:6.0f} ms, all attached {median:6.0f} ms (slowest {max(taken):.0f}, ratio {median / base:.1f});"
              f" the goal is {GOAL_MS} ms")


if __name__ == "__main__":
    main()
