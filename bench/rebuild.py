#!/usr/bin/env python3
"""Measures how long the database of many sessions takes to be made again, and how a daemon gives many sessions of a version
before their files.

    cargo build --release && python3 bench/rebuild.py

A few sessions of fake CLIs are made with some turns each, and copied under ids of their own. Talks to 127.0.0.1 only, is bounded,
and stops what it starts.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from figures import FAKE, LIMIT_S, Daemon, wait_until

PROGRAM = pathlib.Path(os.environ.get("PROGRAM", pathlib.Path(__file__).resolve().parent.parent / "target/release/trunkline"))
SESSIONS = int(os.environ.get("SESSIONS", "10000"))
TURNS = int(os.environ.get("TURNS", "3"))
GOAL_S = 60
UUID = re.compile(r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-)([0-9a-f]{4})[0-9a-f]{8}\b")


def copied(text, number):
    """The text with other ids: each stays what it is for the others of the same copy."""
    return UUID.sub(lambda found: f"{found[1]}{found[2]}{number:08x}", text)


def multiply(sessions):
    """Makes as many sessions as wanted of those that are there."""
    made = [folder for folder in sorted(sessions.iterdir()) if folder.is_dir()]
    for number in range(SESSIONS - len(made)):
        original = made[number % len(made)]
        folder = sessions / copied(original.name, number)
        folder.mkdir(mode=0o700)
        for file in original.iterdir():
            if file.suffix in (".ndjson", ".json") and file.name != "keeper.json":
                (folder / file.name).write_text(copied(file.read_text(), number))
                (folder / file.name).chmod(0o600)
    return len([folder for folder in sessions.iterdir() if folder.is_dir()])


def start(daemon):
    """Seconds from the start of a daemon to its first answer."""
    told = daemon.path / "data/daemon.json"
    told.unlink(missing_ok=True)
    begun = time.monotonic()
    daemon.start()
    daemon.url = json.loads(wait_until("the daemon", lambda: told.exists() and told.read_text()))["url"]
    daemon.ask("GET", "/v1/sessions?limit=1")
    return time.monotonic() - begun


def end(daemon):
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait(LIMIT_S)


def rebuild(daemon):
    command = [PROGRAM, "rebuild", "--json", "--data-dir", daemon.path / "data"]
    begun = time.monotonic()
    said = json.loads(subprocess.run(command, env=daemon.env, check=True, capture_output=True, timeout=600).stdout)
    return time.monotonic() - begun, said


def main():
    if not PROGRAM.exists():
        sys.exit("cargo build --release first")
    with Daemon(FAKE, program=PROGRAM, TRUNKLINE_STOP_ON_SHUTDOWN="stop") as daemon:
        for _ in range(4):
            session = daemon.create(title="one of many", labels={"team": "a"})
            for turn in range(TURNS):
                daemon.ask("POST", f"/v1/sessions/{session['id']}/messages?wait=result", {"text": f"turn {turn}"})
            daemon.ask("POST", f"/v1/sessions/{session['id']}/stop")
        end(daemon)
        data = daemon.path / "data"
        count = multiply(data / "sessions")
        taken, said = rebuild(daemon)
        if said["sessions"] != count or said["recovered"] or said["unreadable"]:
            sys.exit(f"of {count} sessions there are {said}")
        print(f"the database of {count} sessions with {TURNS} turns each, made again in {taken:.1f} s; the goal is {GOAL_S} s")

        with_files = start(daemon)
        end(daemon)
        files = list((data / "sessions").glob("*/session.json"))
        for file in files:
            file.unlink()
        begun = time.monotonic()
        without = start(daemon)
        left = files
        while left and time.monotonic() < begun + 600:
            time.sleep(0.1)
            left = [file for file in left if not file.exists()]
        if left:
            sys.exit(f"{len(left)} files are not there")
        print(f"  a start {with_files:.2f} s, without the files of the sessions {without:.2f} s; these are there after {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
