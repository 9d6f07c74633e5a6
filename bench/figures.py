#!/usr/bin/env python3
"""Measures the figures of docs/PERFORMANCE.md: each one beside its baseline, in one run.

    cargo build --release && npm ci --prefix web-test && python3 bench/figures.py [start] [warm] [memory] [flood]

Needs the real CLI of web-test. Talks to 127.0.0.1 only, is bounded, and stops what it starts.
"""

import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("PROGRAM", ROOT / "target/release/trunkline"))
FAKE = ROOT / "tests/programs/fake_claude.py"
STARTS = int(os.environ.get("STARTS", "15"))
SESSIONS = int(os.environ.get("SESSIONS", "50"))
FLOOD_LINES = int(os.environ.get("FLOOD_LINES", "1000000"))
LIMIT_S = 120


def wait_until(what, condition):
    """Polls a condition; these are measurements of memory and ends, not of the time that the poll takes."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    sys.exit(f"gave up waiting: {what}")


def real_cli():
    printed = subprocess.run(["node", ROOT / "web-test/claude-path.mjs"], capture_output=True, text=True, check=True)
    return printed.stdout.strip()


class ModelApi:
    """The stand-in model API."""

    def __enter__(self):
        self.process = subprocess.Popen(
            ["node", ROOT / "tests/programs/model_api.mjs", "--port", "0", "--until-stdin-closes"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(LIMIT_S)


class Daemon:
    """A daemon on a directory of its own."""

    def __init__(self, cli, api_url="http://127.0.0.1:9", program=PROGRAM, **env):
        self.folder = tempfile.TemporaryDirectory(prefix="tl-")
        self.path = pathlib.Path(self.folder.name).resolve()
        for name in ("home", "home/warm", "work"):
            (self.path / name).mkdir()
        self.env = {
            "HOME": str(self.path / "home"), "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": api_url,
            "ANTHROPIC_API_KEY": "sk-fake", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **env,
        }
        self.command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", self.path / "data", "--claude-bin", cli]
        self.log = open(self.path / "log", "w")
        self.start()

    def start(self, **env):
        self.env.update(env)
        self.process = subprocess.Popen(self.command, env=self.env, stdout=self.log, stderr=self.log)

    def __enter__(self):
        told = self.path / "data/daemon.json"
        self.url = json.loads(wait_until("the daemon", lambda: told.exists() and told.read_text()))["url"]
        self.token = (self.path / "data/token").read_text().strip()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)
        self.log.close()
        self.folder.cleanup()

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.loads(answer.read() or "null")

    def create(self, **fields):
        return self.ask("POST", "/v1/sessions", {"cwd": str(self.path / "work"), **fields})

    def journal(self, session):
        return sorted((self.path / "data/sessions" / session["id"]).glob("*.ndjson"))


def memory(pid):
    """Kilobytes by name, from the kernel's summary."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0])
    fields["Private"] = fields["Private_Clean"] + fields["Private_Dirty"]
    return fields


def children(pid):
    lists = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]


def bare_start(cli, api, env, cwd):
    """Milliseconds from the start of the CLI over bare pipes to the first byte that it prints."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [cli, "--output-format=stream-json", "--verbose", "--input-format=stream-json", "--permission-prompt-tool=stdio"],
        env={**env, "CLAUDE_CODE_ENTRYPOINT": "trunkline", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"},
        cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdin.write(b'{"type":"control_request","request_id":"r","request":{"subtype":"initialize"}}\n')
    process.stdin.flush()
    process.stdout.read(1)
    taken = (time.monotonic() - begun) * 1000
    process.kill()
    process.wait()
    process.stdout.close()
    process.stdin.close()
    return taken


def daemon_start(daemon):
    """Milliseconds from the POST to the first record of the CLI, by the record's own time."""
    begun = time.time()
    session = daemon.create()
    answered = (time.time() - begun) * 1000

    def first_line():
        for segment in daemon.journal(session):
            # The last line may be incomplete.
            for line in segment.read_text().split("\n")[:-1]:
                if '"src":"cli"' in line[:120]:
                    return json.loads(line)["ts"]
        return None

    journaled = datetime.datetime.fromisoformat(wait_until("the first line", first_line))
    daemon.ask("DELETE", f"/v1/sessions/{session['id']}")
    return (journaled.timestamp() - begun) * 1000, answered


def start_times():
    cli = real_cli()
    bare, through, answered = [], [], []
    with ModelApi() as api, Daemon(cli, api.url) as daemon:
        for _ in range(STARTS):
            bare.append(bare_start(cli, api, daemon.env, daemon.path / "work"))
            taken, answer = daemon_start(daemon)
            through.append(taken)
            answered.append(answer)
    bare, through, answered = (statistics.median(it) for it in (bare, through, answered))
    print(f"start of the real CLI, median of {STARTS}, taken in turns")
    print(f"  bare pipes: first byte after            {bare:7.1f} ms")
    print(f"  POST to first byte in the journal       {through:7.1f} ms")
    print(f"  added by the daemon                     {through - bare:7.1f} ms  (ratio {through / bare:.3f})")
    print(f"  POST to its answer                      {answered:7.1f} ms")


def time_to_idle(daemon, cwd):
    """Milliseconds from the POST to the answer that the session is idle."""
    begun = time.monotonic()
    session = daemon.ask("POST", "/v1/sessions?wait=ready", {"cwd": str(cwd)})
    taken = (time.monotonic() - begun) * 1000
    if session["state"] != "idle":
        sys.exit(f"not idle: {session}")
    records = daemon.ask("GET", f"/v1/sessions/{session['id']}/events")["items"]
    claimed = any(record["data"].get("type") == "claimed" for record in records)
    daemon.ask("DELETE", f"/v1/sessions/{session['id']}")
    return taken, claimed


def warm_times():
    profile = '[{ cwd = "~/warm" }]'
    times = {False: [], True: []}
    with ModelApi() as api, Daemon(real_cli(), api.url, TRUNKLINE_WARM_PROFILES=profile) as daemon:
        for _ in range(STARTS):
            for name in ("work", "home/warm"):
                # Nothing else starts meanwhile.
                wait_until("a process in advance", lambda: daemon.ask("GET", "/readyz")["warm"][0]["ready"])
                taken, claimed = time_to_idle(daemon, daemon.path / name)
                if claimed != (name == "home/warm"):
                    sys.exit(f"claimed: {claimed} in {name}")
                times[claimed].append(taken)
    cold, warm = statistics.median(times[False]), statistics.median(times[True])
    print(f"POST to idle with the real CLI, median of {STARTS}, taken in turns")
    print(f"  started then (cold)                     {cold:7.1f} ms")
    print(f"  started in advance (warm)               {warm:7.1f} ms")
    print(f"  ratio                                   {cold / warm:7.1f}")


def memory_use():
    with Daemon(FAKE) as daemon:
        empty = memory(daemon.process.pid)
        sessions = [daemon.create() for _ in range(SESSIONS)]
        for session in sessions:
            wait_until("idle", lambda: daemon.ask("GET", f"/v1/sessions/{session['id']}")["state"] == "idle")
        full = memory(daemon.process.pid)
        keepers = [memory(pid) for pid in children(daemon.process.pid)]
        private = sorted(keeper["Private"] for keeper in keepers)
        pss = sorted(keeper["Pss"] for keeper in keepers)
        print(f"memory, {SESSIONS} idle sessions of the fake CLI")
        for name, use in (("without sessions", empty), (f"with {len(keepers)} sessions", full)):
            print(f"  daemon {name}: RSS {use['Rss']} kB, private {use['Private']} kB, of that its own (anonymous)"
                  f" {use['Anonymous']} kB")
        print(f"  keeper: private {statistics.median(private):.0f} kB (largest {private[-1]}),"
              f" PSS {statistics.median(pss):.0f} kB")


def flood_rate():
    """Lines a second from a flooding child: into a bare pipe, and through a keeper into the journal."""
    flood = json.dumps([{"flood": FLOOD_LINES, "bytes": 300}])
    prompt = {"type": "user", "message": {"role": "user", "content": f"FAKE:{flood}:END"}}
    with Daemon(FAKE) as daemon:
        process = subprocess.Popen([FAKE, "--output-format=stream-json", "--verbose", "--input-format=stream-json"],
                                   env=daemon.env, cwd=daemon.path / "work", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(json.dumps(prompt).encode() + b"\n")
        process.stdin.flush()
        bare = rate(lambda: len(process.stdout.read1(1 << 20)))
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

        session = daemon.create(prompt=prompt["message"]["content"])
        path = wait_until("the journal", lambda: daemon.journal(session))[0].parent
        read = {"bytes": 0}

        def grown():
            # To look all the time would take a core from the three that work.
            time.sleep(0.002)
            size = sum(segment.stat().st_size for segment in path.glob("*.ndjson"))
            grown, read["bytes"] = size - read["bytes"], size
            return grown

        through = rate(grown)
        # A record has its number, its time and its source beside the line.
        record = first_record_bytes(daemon, session)
        print(f"{FLOOD_LINES} lines of 300 bytes from a child that prints as fast as it can")
        print(f"  into a bare pipe                        {bare / 300 / 1000:7.0f} thousand lines/s")
        print(f"  through the keeper into the journal     {through / record / 1000:7.0f} thousand lines/s"
              f"  (ratio {through / record / (bare / 300):.2f})")


def first_record_bytes(daemon, session):
    """Bytes of a record of the flood."""
    with daemon.journal(session)[0].open() as segment:
        return next(len(line) for line in segment if '"type":"stream_event"' in line)


def rate(read):
    """Bytes a second while the middle of the flood passes."""
    total = FLOOD_LINES * 300
    seen, begun = 0, None
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        seen += read()
        if begun is None and seen > total * 0.1:
            begun, first = time.monotonic(), seen
        elif begun is not None and seen > total * 0.9:
            return (seen - first) / (time.monotonic() - begun)
    sys.exit("the flood did not pass")


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit("cargo build --release first")
    parts = {"start": start_times, "warm": warm_times, "memory": memory_use, "flood": flood_rate}
    for name in sys.argv[1:] or parts:
        parts[name]()
