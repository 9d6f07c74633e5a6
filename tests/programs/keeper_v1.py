#!/usr/bin/env python3
"""A keeper that speaks version 1 of the link, frozen: what it says and understands is written out here, and never follows the
program. The job is one JSON object on stdin. It ends with its process, and after 300 s whatever happens."""

import fcntl
import glob
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from datetime import datetime, timezone

HELLO, WRITE, NOTE, SIGNAL, STOP, CLOSE_STDIN, DETACH = range(1, 8)
REFUSED, ACK, REFUSAL, HEAD, EXITED = range(65, 70)

job = json.load(sys.stdin)
# Version 1 says nothing of itself in the identity file. Any other is one that nobody here knows, and refuses everybody.
version = job.get("version", 1)
os.setsid()
signal.alarm(300)


def lock(path):
    file = open(path, "a+b")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


locks = [lock(os.path.join(job["journal_dir"], "lock")), lock(job["lease_file"])]


class Journal:
    def __init__(self, folder):
        path = sorted(glob.glob(os.path.join(folder, "*.ndjson")))[-1]
        self.segment = int(os.path.basename(path).split(".")[0])
        self.file = open(path, "r+b")
        lines = self.file.read().splitlines()
        self.seq = json.loads(lines[-1])["seq"]

    def append(self, src, data, by=None):
        self.seq += 1
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        by = ',"by":"%s"' % by if by else ""
        head = '{"seq":%d,"ts":"%s","src":"%s"%s,"data":' % (self.seq, now, src, by)
        self.file.write(head.encode() + data + b"}\n")
        self.file.flush()
        return self.seq

    def head(self):
        return {"seq": self.seq, "segment": self.segment, "offset": self.file.tell()}


def start_time(pid):
    with open("/proc/%d/stat" % pid) as file:
        return int(file.read().rpartition(")")[2].split()[19])


journal = Journal(job["journal_dir"])
listener = socket.socket(socket.AF_UNIX)
listener.bind(job["socket"])
listener.listen()
secret = os.urandom(32).hex()
with open("/proc/sys/kernel/random/boot_id") as file:
    boot = file.read().strip()
identity = {
    "pid": os.getpid(),
    "start_time": start_time(os.getpid()),
    "boot_id": boot,
    "secret": secret,
    "socket": job["socket"],
    "session": job["session"],
    "run": job["run"],
    "program_version": "0.0.9",
}
if version != 1:
    identity["protocol"] = version
journal.append("daemon", json.dumps(job["start_note"]).encode())
child = subprocess.Popen(
    job["argv"], env=job["env"], cwd=job["cwd"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=os.setpgrp
)
for line in job["first_lines"]:
    data = json.dumps(line).encode()
    journal.append("client", data, "daemon")
    child.stdin.write(data + b"\n")
    child.stdin.flush()
with open(job["identity_file"] + ".new", "w") as file:
    json.dump(identity, file)
os.rename(job["identity_file"] + ".new", job["identity_file"])
print("ready", flush=True)

selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
selector.register(child.stdout, selectors.EVENT_READ)
daemon, heard, printed, stopped_by, kill_at, term_at, told = None, b"", b"", "none", None, None, None
terminated = []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(1))


def say(tag, message):
    payload = json.dumps(message).encode()
    try:
        daemon.sendall(struct.pack("<IB", len(payload), tag) + payload)
    except OSError:
        drop()


def drop():
    global daemon, heard
    if daemon:
        selector.unregister(daemon)
        daemon.close()
    daemon, heard = None, b""


def note_heard(what):
    with open(job["heard"], "a") as file:
        file.write(json.dumps(what) + "\n")


def on_frame(tag, payload):
    global stopped_by, term_at, kill_at, told
    if tag == HELLO:
        hello = json.loads(payload)
        note_heard({"hello": hello["protocol"]})
        if version != 1 or hello["protocol"] != version:
            say(REFUSED, {"version": version})
            return drop()
        if hello["secret"] != secret:
            say(REFUSED, "secret")
            return drop()
        told = journal.head()
        return say(HELLO, {
            "protocol": 1, "program_version": "0.0.9", "session": job["session"], "run": job["run"],
            "child_pid": child.pid, "child_start_time": start_time(child.pid), "head": told, "exited": None,
            "max_line_bytes": 1 << 20,
        })
    note_heard({"tag": tag})
    if tag in (WRITE, NOTE):
        number, by = struct.unpack_from("<QH", payload)
        data = payload[10 + by:]
        if tag == WRITE:
            seq = journal.append("client", data, payload[10:10 + by].decode() or None)
            child.stdin.write(data + b"\n")
            child.stdin.flush()
        else:
            seq = journal.append("daemon", data)
        say(ACK, {"id": number, "value": seq})
    elif tag == SIGNAL:
        os.kill(child.pid, json.loads(payload))
    elif tag == STOP:
        request = json.loads(payload)
        begin_stop(request["eof_grace_ms"] if request["close_stdin_first"] else 0, request["term_grace_ms"])
    elif tag == CLOSE_STDIN:
        child.stdin.close()
    elif tag == DETACH:
        drop()


def begin_stop(eof_grace_ms, term_grace_ms):
    global stopped_by, term_at, kill_at
    if eof_grace_ms and not child.stdin.closed:
        child.stdin.close()
    stopped_by = "stop"
    term_at = time.monotonic() + eof_grace_ms / 1000
    kill_at = term_at + term_grace_ms / 1000


def climb():
    global term_at, kill_at
    now = time.monotonic()
    if term_at and now >= term_at:
        term_at = None
        os.killpg(child.pid, signal.SIGTERM)
    elif not term_at and kill_at and now >= kill_at:
        kill_at = None
        os.killpg(child.pid, signal.SIGKILL)


open_output = True
while open_output:
    try:
        with open(job["frozen_while"]) as file:
            frozen = file.read()
    except FileNotFoundError:
        frozen = None
    if frozen is not None:
        # As one that was stopped, or that the machine gives no time: it lives, and does nothing.
        if frozen in ("hang up", "turn away"):
            drop()
        if frozen == "turn away":
            # As one that waited for a hello for too long.
            listener.setblocking(False)
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                pass
            listener.setblocking(True)
        time.sleep(0.02)
        continue
    for key, _ in selector.select(0.05):
        if key.fileobj is listener:
            drop()
            daemon, _ = listener.accept()
            selector.register(daemon, selectors.EVENT_READ)
        elif key.fileobj is child.stdout:
            read = os.read(child.stdout.fileno(), 1 << 16)
            open_output = bool(read)
            printed += read
            *lines, printed = printed.split(b"\n")
            for line in lines:
                if b'"keep_alive"' not in line[:30]:
                    journal.append("cli", line)
        elif daemon and key.fileobj is daemon:
            try:
                read = daemon.recv(1 << 16)
            except OSError:
                read = b""
            if not read:
                drop()
                continue
            heard += read
            while len(heard) >= 5:
                length, tag = struct.unpack_from("<IB", heard)
                if len(heard) < 5 + length:
                    break
                payload, heard = heard[5:5 + length], heard[5 + length:]
                on_frame(tag, payload)
    if terminated:
        terminated.clear()
        begin_stop(0, 5000)
    climb()
    if daemon and told is not None and told != journal.head():
        told = journal.head()
        say(HEAD, told)

code = child.wait()
exit_ = {
    "code": code if code >= 0 else None, "signal": -code if code < 0 else None, "intent": stopped_by,
    "killed": kill_at is None and stopped_by == "stop", "stderr_tail": "", "unwritten_lines": 0,
}
journal.append("daemon", json.dumps({"type": "run_exited", "run_id": job["run"], **exit_}).encode())
if daemon:
    say(HEAD, journal.head())
    say(EXITED, exit_)
os.unlink(job["identity_file"])
os.unlink(job["socket"])
