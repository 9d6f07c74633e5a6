#!/usr/bin/env python3
"""Measures what `trunkline claude` adds to the program that it stands in for, in one run.

    cargo build --release && python3 bench/stand_in.py

The program prints a line as soon as it starts. Directly and through the stand-in take turns. Talks to 127.0.0.1 only, is
bounded, and stops what it starts.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

from figures import LIMIT_S, PROGRAM, Daemon, children, memory, wait_until

ROUNDS = int(os.environ.get("ROUNDS", "50"))
GOAL_MS = 15
GOAL_KIB = 5 * 1024
CHILD = """#!/bin/sh
if [ "$1" = --version ]; then echo "2.1.332 (Claude Code)"; exit; fi
echo '{"type":"system","subtype":"hello"}'
read -r _
echo '{"type":"control_response","response":{"subtype":"success","request_id":"trunkline-initialize","response":{}}}'
exec cat > /dev/null
"""
ARGS = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
GREETING = b'{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\n'


class Start:
    """A start of the program, up to its first line."""

    def __init__(self, program, env, cwd):
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [program, *ARGS], env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(GREETING)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.ms = (time.monotonic() - begun) * 1000
        if b'"hello"' not in line:
            sys.exit(f"another line came first: {line}")

    def end(self):
        self.process.stdin.close()
        if self.process.wait(LIMIT_S):
            sys.exit(f"the program ended with {self.process.returncode}")
        self.process.stdout.close()


def main():
    if not pathlib.Path(PROGRAM).exists():
        sys.exit("cargo build --release first")
    direct, through, private = [], [], []
    child = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"tl-child-{os.getpid()}"
    child.write_text(CHILD)
    child.chmod(0o755)
    try:
        with Daemon(child) as daemon:
            stand_in = daemon.path / "claude"
            stand_in.symlink_to(pathlib.Path(PROGRAM).resolve())
            env = {**daemon.env, "TRUNKLINE_DATA_DIR": str(daemon.path / "data")}
            for _ in range(ROUNDS):
                start = Start(child, env, daemon.path / "work")
                direct.append(start.ms)
                start.end()
                before = set(children(daemon.process.pid))
                start = Start(stand_in, env, daemon.path / "work")
                through.append(start.ms)
                keepers = wait_until("the keeper", lambda: set(children(daemon.process.pid)) - before)
                private.append([memory(start.process.pid)["Private"], sum(memory(pid)["Private"] for pid in keepers)])
                start.end()
    finally:
        child.unlink()
    direct, through = statistics.median(direct), statistics.median(through)
    own, kept = (statistics.median(it) for it in zip(*private))
    print(f"from the start to the first line, median of {ROUNDS}, taken in turns")
    print(f"  the program itself             {direct:7.1f} ms")
    print(f"  through `trunkline claude`     {through:7.1f} ms")
    print(f"  added                          {through - direct:7.1f} ms  (goal: {GOAL_MS})")
    print(f"private memory, median of {ROUNDS}")
    print(f"  the stand-in                   {own:7.0f} KiB")
    print(f"  the keeper of its session      {kept:7.0f} KiB")
    print(f"  both                           {own + kept:7.0f} KiB  (goal: {GOAL_KIB})")
    if through - direct > GOAL_MS or own + kept > GOAL_KIB:
        sys.exit("more than the goal")


if __name__ == "__main__":
    main()
