#!/usr/bin/env python3
"""Measures how a daemon takes over the data directory of a version before with many sessions: the database is migrated before the
first answer, and the files of the sessions are written while the daemon works.

    cargo build --release && python3 bench/upgrade.py

With OLD=/path/to/an/older/trunkline that program is started on the directory afterwards, and must refuse it with one line. Talks to
127.0.0.1 only, is bounded, and stops what it starts.
"""

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time

from figures import FAKE, LIMIT_S, ROOT, Daemon
from rebuild import PROGRAM, SESSIONS, copied, end, start

FIXTURE = ROOT / "tests/fixtures/before"
#: A start may take this long.
GOAL_S = 5
#: An answer in the meantime may take this long.
ANSWER_GOAL_S = 0.5
#: Rows of no session.
APART = ("_sqlx_migrations", "probe", "sqlite_stat1", "idempotency_keys")


def make_old(data, root):
    """Puts the data directory of the version before in the place of this one, with its sessions many times over."""
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    def text(path):
        return path.read_text().replace("@ROOT@", str(root))

    statements = text(FIXTURE / "database.sql")
    # A text may have lines.
    rows = [row for row in statements.split(";\n")
            if row.startswith("INSERT INTO ") and not any(f'"{table}"' in row.split("VALUES")[0] for table in APART)]
    originals = sorted((FIXTURE / "sessions").iterdir())
    copies = SESSIONS // len(originals)
    with sqlite3.connect(data / "trunkline.db") as database:
        database.executescript(statements)
        for number in range(1, copies):
            for row in rows:
                database.execute(copied(row, number))
    database.close()
    for number in range(copies):
        for original in originals:
            folder = data / "sessions" / (copied(original.name, number) if number else original.name)
            folder.mkdir(mode=0o700, parents=True)
            for file in original.iterdir():
                written = text(file)
                (folder / file.name).write_text(copied(written, number) if number else written)
    shutil.copy(FIXTURE / "mark", data / "mark")
    return copies * len(originals)


def refuse(old, daemon):
    """The words of an older program on this directory."""
    command = [old, "serve", "--data-dir", daemon.path / "data"]
    ended = subprocess.run(command, env=daemon.env, capture_output=True, text=True, timeout=LIMIT_S)
    lines = ended.stderr.strip().splitlines()
    if ended.returncode == 0 or not lines:
        sys.exit(f"the older program ended with {ended.returncode}: {ended.stderr}")
    return lines[-1]


def main():
    if not PROGRAM.exists():
        sys.exit("cargo build --release first")
    with Daemon(FAKE, program=PROGRAM, TRUNKLINE_STOP_ON_SHUTDOWN="stop") as daemon:
        end(daemon)
        data = daemon.path / "data"
        token = (data / "token").read_text()
        count = make_old(data, daemon.path)
        (data / "token").write_text(token)
        begun = time.monotonic()
        taken = start(daemon)
        left, slowest = list((data / "sessions").iterdir()), 0
        without = len([folder for folder in left if not (folder / "session.json").exists()])
        while left and time.monotonic() < begun + 600:
            asked = time.monotonic()
            daemon.ask("GET", "/v1/sessions?limit=50")
            slowest = max(slowest, time.monotonic() - asked)
            left = [folder for folder in left if not (folder / "session.json").exists()]
        if left:
            sys.exit(f"{len(left)} sessions have no file")
        print(f"{count} sessions of the version before: a start takes {taken:.2f} s (the goal is {GOAL_S} s), when {without} have no file yet;")
        print(f"  all have one after {time.monotonic() - begun:.1f} s, and the slowest answer meanwhile takes {slowest * 1000:.0f} ms "
              f"(the goal is {ANSWER_GOAL_S * 1000:.0f} ms)")
        end(daemon)
        print(f"  the next start takes {start(daemon):.2f} s")
        end(daemon)
        if os.environ.get("OLD"):
            print(f"  the older program: {refuse(pathlib.Path(os.environ['OLD']), daemon)}")
        if taken > GOAL_S or slowest > ANSWER_GOAL_S:
            sys.exit(1)


if __name__ == "__main__":
    main()
