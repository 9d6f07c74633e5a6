"""Owns a run of the fake CLI: its start, its turns and its end."""

import json
import os
import signal
import sys
import threading
import time

from .actions import Actions
from .controls import DEFAULT_MODEL, MODES, Controls
from .settings import flag_values, is_uuid, load_settings
from .wire import Interrupted, Out, answer_fault, encode, new_id, prompt_actions, prompt_text, token_usage

DEFAULT_TEXT = "Hello from the fake CLI."
# Nothing a test forgets may live for ever.
MAX_LIFE_SECONDS = 900
READ_BYTES = 65536
POLL_SECONDS = 0.005


class Fake(Actions, Controls):
    """One run of the CLI. The main thread performs turns; a reader thread takes lines from stdin."""

    def __init__(self, argv):
        self.argv = argv
        self.flags = flag_values(argv)
        self.settings = load_settings()
        self.out = Out(self.settings.get("output_log"))
        self.changed = threading.Condition()
        self.prompts = []
        self.at_eof = False
        self.turn_open = False
        self.interrupted = False
        self.pending = {}
        self.answers = {}
        self.seen_uuids = set()
        self.running_uuids = []
        self.initialized = False
        self.state = "idle"
        self.model = self.flag("--model") or DEFAULT_MODEL
        self.mode = self.flag("--permission-mode") or "default"
        self.total = 0.0
        self.usage = {}
        self.costs = list(self.settings.get("costs", []))
        self.results = 0
        self.last_was_error = False
        self.session_id = None
        self.put_off = None

    # ---- small things ---------------------------------------------------------

    def flag(self, name):
        values = self.flags.get(name)
        return values[-1] if values else None

    def emit(self, value):
        value.setdefault("session_id", self.session_id)
        value.setdefault("uuid", new_id())
        self.out.line(value)

    def set_state(self, state):
        if state != self.state and os.environ.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1":
            self.emit({"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": True})
        self.state = state

    def fail(self, message, code=1):
        os.write(2, (message + "\n").encode())
        os._exit(code)

    def wait(self, ready, seconds=None):
        """Waits for a condition over what the reader thread changes; an interrupt of the turn ends it."""
        limit = None if seconds is None else time.monotonic() + seconds
        with self.changed:
            while not ready():
                self.check_interrupt()
                left = None if limit is None else limit - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self.changed.wait(left)
        return True

    def check_interrupt(self):
        if self.interrupted and self.turn_open:
            raise Interrupted

    def pause(self, milliseconds):
        self.wait(lambda: False, milliseconds / 1000)

    def wait_file(self, path):
        while not os.path.exists(path):
            self.pause(POLL_SECONDS * 1000)

    # ---- start ----------------------------------------------------------------

    def run(self):
        if "--version" in self.argv or "-v" in self.argv:
            version = os.environ.get("FAKE_CLAUDE_VERSION") or self.settings.get("version") or "9.9.9"
            self.out.write(f"{version} (Claude Code)\n".encode())
            return 0
        signal.alarm(int(self.settings.get("max_life_s", MAX_LIFE_SECONDS)))
        self.install_signals()
        self.dump_start()
        self.exit_at_start()
        if self.flag("--input-format") != "stream-json":
            text = sys.stdin.read()
            self.out.write(f"not a stream: {len(text)} characters\n".encode())
            return 0
        self.check_flags()
        self.open_session()
        self.act_all(self.settings.get("start", []))
        if self.settings.get("never_read_stdin"):
            while True:
                signal.pause()
        # Zeroes alone would be shared pages of nothing.
        self.ballast = bytearray(b"x") * self.settings.get("memory_bytes", 0)
        threading.Thread(target=self.read_stdin, daemon=True).start()
        self.serve()
        return self.end_of_input()

    def install_signals(self):
        for number, name, code in ((signal.SIGTERM, "term", 143), (signal.SIGHUP, "hup", 129), (signal.SIGINT, "int", 0)):
            policy = self.settings.get(name, {})
            if policy.get("ignore"):
                signal.signal(number, signal.SIG_IGN)
            else:
                signal.signal(number, lambda *_, policy=policy, code=code: self.leave_after(policy, code))

    def leave_after(self, policy, code):
        """A handler may interrupt the holder of a lock, so what is to be done first is done by another thread."""
        if not policy.get("do"):
            self.leave(policy, code)

        def act():
            self.act_all(policy["do"])
            self.leave(policy, code)

        threading.Thread(target=act, daemon=True).start()

    def leave(self, policy, code):
        """The end asked for by a signal or by end of input, as its policy says."""
        time.sleep(policy.get("delay_ms", 0) / 1000)
        if policy.get("touch"):
            with open(policy["touch"], "ab"):
                pass
        os._exit(policy.get("code", code))

    def dump_start(self):
        path = self.settings.get("dump")
        if path:
            with open(path, "ab") as file:
                file.write(encode(self.start_facts()) + b"\n")

    def start_facts(self):
        return {"argv": self.argv, "env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid(), "ppid": os.getppid()}

    def exit_at_start(self):
        plan = self.settings.get("exit_at_start")
        if plan is None:
            return
        time.sleep(plan.get("delay_ms", 0) / 1000)
        self.out.write(plan.get("stdout", "").encode())
        os.write(2, plan.get("stderr", "").encode())
        os._exit(plan.get("code", 1))

    def check_flags(self):
        for name in self.settings.get("reject_flags", []):
            if name in self.flags:
                self.fail(f"error: unknown option '{name}'")
        if self.mode not in MODES:
            self.fail(f"error: option '--permission-mode <mode>' argument '{self.mode}' is invalid.")
        if self.flag("--session-id") and not is_uuid(self.flag("--session-id")):
            self.fail("Error: Invalid session ID. Must be a valid UUID.")

    # ---- the session on disk ----------------------------------------------------

    def transcript(self, session_id):
        return os.path.join(os.environ.get("HOME", "/nonexistent"), ".claude-fake", f"{session_id}.jsonl")

    def open_session(self):
        wanted, resume, fork = self.flag("--session-id"), self.flag("--resume"), "--fork-session" in self.flags
        if "--continue" in self.flags and not resume:
            resume = self.newest_session()
        if wanted and resume and not fork:
            self.fail("Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.")
        if wanted and os.path.exists(self.transcript(wanted)):
            self.fail(f"Error: Session ID {wanted} is already in use.")
        if not resume:
            self.session_id = wanted or new_id()
            if self.settings.get("save") == "start":
                self.save({"type": "started"})
            return
        self.session_id = resume
        if not os.path.exists(self.transcript(resume)):
            self.refuse_resume(resume)
        self.load_total(resume)
        if fork:
            self.session_id = wanted or new_id()
            with open(self.transcript(resume), "rb") as parent, open(self.transcript(self.session_id), "wb") as own:
                own.write(parent.read())
        elif self.settings.get("resume_prints"):
            self.session_id = self.settings["resume_prints"]
            if self.settings.get("resume_keeps") == "new":
                os.rename(self.transcript(resume), self.transcript(self.session_id))

    def newest_session(self):
        folder = os.path.dirname(self.transcript(""))
        names = [name for name in os.listdir(folder) if name.endswith(".jsonl")] if os.path.isdir(folder) else []
        if not names:
            self.fail("No conversation found to continue")
        newest = max(names, key=lambda name: os.stat(os.path.join(folder, name)).st_mtime_ns)
        return newest[: -len(".jsonl")]

    def refuse_resume(self, session_id):
        message = f"No conversation found with session ID: {session_id}"
        self.emit({
            "type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0, "duration_ms": 0,
            "duration_api_ms": 0, "stop_reason": None, "total_cost_usd": 0, "usage": token_usage(0, 0), "modelUsage": {},
            "permission_denials": [], "errors": [message], "result_index": 0,
        })
        self.fail(message)

    def load_total(self, session_id):
        with open(self.transcript(session_id), encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                if entry.get("type") == "cost-state":
                    self.total, self.usage = entry["total_cost_usd"], entry["model_usage"]
                elif entry.get("type") == "put_off":
                    self.put_off = entry["call"]

    def save(self, entry):
        keeps_old = self.settings.get("resume_prints") and self.settings.get("resume_keeps") != "new"
        name = self.flag("--resume") if keeps_old and self.flag("--resume") else self.session_id
        if self.settings.get("save") == "never":
            return
        path = self.transcript(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "ab") as file:
            file.write(encode(entry) + b"\n")

    def save_total(self):
        if os.path.exists(self.transcript(self.session_id)):
            self.save({"type": "cost-state", "total_cost_usd": self.total, "model_usage": self.usage})

    # ---- reading stdin (own thread) ---------------------------------------------

    def read_stdin(self):
        lines_left = self.settings.get("read_lines")
        bytes_left = self.settings.get("read_bytes_then_exit")
        record = open(self.settings["record_stdin"], "ab", buffering=0) if self.settings.get("record_stdin") else None
        parts = []
        while True:
            data = os.read(0, READ_BYTES if bytes_left is None else min(READ_BYTES, bytes_left))
            if record:
                record.write(data)
            if bytes_left is not None:
                bytes_left -= len(data)
                if bytes_left <= 0:
                    os._exit(1)
            # Pieces of a line are joined once: lines may have many megabytes.
            first, *others = data.split(b"\n")
            parts.append(first)
            for part in others:
                self.take_line(b"".join(parts))
                parts = [part]
                if lines_left is not None:
                    lines_left -= 1
                    if lines_left <= 0:
                        return
            if not data:
                break
        self.take_line(b"".join(parts), at_end=True)
        with self.changed:
            self.at_eof = True
            self.changed.notify_all()

    def take_line(self, line, at_end=False):
        if not line.strip():
            if self.settings.get("blank_line_exits") and not at_end:
                self.fail("Error: blank line on stdin", 1)
            return
        try:
            message = json.loads(line)
        except ValueError:
            self.fail(f"Error parsing streaming input line (type=unknown, {len(line)} chars): SyntaxError")
        if self.settings.get("echo"):
            self.out.line({"type": "fake_echo", "line": line.decode("utf-8", "replace")})
        if not isinstance(message, dict):
            return
        kind = message.get("type")
        if kind == "user":
            self.take_prompt(message)
        elif kind == "control_request":
            self.take_control(message)
        elif kind == "control_response":
            self.take_answer(message, line)
        elif kind == "update_environment_variables" and message.get("request_id"):
            self.respond(message["request_id"], {"applied": sorted(message.get("variables") or {})})

    def take_prompt(self, message):
        inner = message.get("message")
        if not isinstance(inner, dict) or inner.get("role") != "user":
            self.fail("Error: Expected message role 'user', got something else")
        ident = message.get("uuid")
        if ident:
            if ident in self.seen_uuids:
                return
            self.seen_uuids.add(ident)
            self.emit({"type": "command_lifecycle", "command_uuid": ident, "state": "queued"})
        with self.changed:
            self.prompts.append(message)
            self.changed.notify_all()

    def take_answer(self, message, line):
        response = message.get("response") or {}
        request_id = response.get("request_id")
        with self.changed:
            request = self.pending.pop(request_id, None)
            if request is not None:
                self.answers[request_id] = response
                self.changed.notify_all()
        fault = answer_fault(request, response, self.settings.get("strict", True)) if request else None
        told = {
            "type": "fake_answer", "request_id": request_id, "expected": request is not None, "valid": fault is None,
            "fault": fault,
        }
        if not self.settings.get("keeps_answers"):
            told |= {"response": response, "raw": line.decode("utf-8", "replace")}
        self.out.line(told)

    # ---- turns --------------------------------------------------------------------

    def serve(self):
        if self.settings.get("after_init"):
            self.wait(lambda: self.initialized or self.at_eof)
            self.act_all(self.settings["after_init"])
        self.begin_with_call()
        holds = self.settings.get("init", {}).get("holds_prompts")
        while True:
            self.wait(lambda: (self.prompts and (self.initialized or not holds)) or self.at_eof)
            with self.changed:
                batch = self.prompts[:] if self.settings.get("merge", True) else self.prompts[:1]
                del self.prompts[: len(batch)]
            if not batch:
                return
            self.run_prompts(batch)

    def end_of_input(self):
        policy = self.settings.get("eof", {})
        if policy.get("seen"):
            with open(policy["seen"], "ab"):
                pass
        if policy.get("ignore"):
            while True:
                signal.pause()
        if not policy.get("loses_total"):
            self.save_total()
        self.leave(policy, 1 if self.last_was_error else 0)

    def run_prompts(self, batch):
        texts = [prompt_text(message) for message in batch]
        self.running_uuids = [message["uuid"] for message in batch if message.get("uuid")]
        if self.put_off:
            self.keep_call(None)
        for message in batch:
            self.save({"type": "user", "message": message["message"]})
        if texts[-1].strip() == "/clear":
            return self.clear(batch)
        actions = [action for text in texts for action in prompt_actions(text)]
        self.turn(actions or self.settings.get("prompt") or [{"text": DEFAULT_TEXT}], batch)

    def clear(self, batch):
        fresh = new_id()
        self.emit({"type": "conversation_reset", "new_conversation_id": fresh, "trigger": "clear"})
        self.session_id, self.total, self.usage = fresh, 0.0, {}
        self.save({"type": "cleared"})
        self.turn([{"result": {"num_turns": 0, "result": "", "usage": token_usage(0, 0)}, "cost": 0}], batch, says_init=False)

    def lifecycle(self, state):
        for ident in self.running_uuids:
            self.emit({"type": "command_lifecycle", "command_uuid": ident, "state": state})

    def turn(self, actions, batch=(), origin=None, says_init=True):
        with self.changed:
            self.turn_open, self.interrupted = True, False
        self.origin, self.last_text = origin, ""
        self.set_state("running")
        self.lifecycle("started")
        if says_init:
            self.say_init()
        if "--replay-user-messages" in self.flags:
            for message in batch:
                self.emit({"type": "user", "message": message["message"], "parent_tool_use_id": None, "isReplay": True,
                           "uuid": message.get("uuid") or new_id()})
        try:
            self.act_all(actions)
            if self.turn_open:
                self.act_result({})
        except Interrupted:
            self.end_interrupted()
        self.set_state("idle")

    def say_init(self):
        self.emit({
            "type": "system", "subtype": "init", "cwd": os.getcwd(), "tools": ["Bash", "Read", "Write"], "mcp_servers": [],
            "model": self.model, "permissionMode": self.mode, "slash_commands": ["clear"], "apiKeySource": "none",
            "claude_code_version": self.settings.get("version") or "9.9.9", "output_style": "default", "agents": [],
            "skills": [], "plugins": [], "capabilities": ["interrupt_receipt_v1", "msg_lifecycle_v1"],
        })

    def end_interrupted(self):
        plan = self.settings.get("controls", {}).get("interrupt", {})
        self.interrupted = False
        if plan.get("result_wait_file"):
            self.wait_file(plan["result_wait_file"])
        time.sleep(plan.get("result_delay_ms", 0) / 1000)
        self.emit({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
                   "parent_tool_use_id": None})
        if plan.get("no_result"):
            self.turn_open = False
            return
        self.act_result({"result": {
            "subtype": "error_during_execution", "is_error": True, "result": None, "terminal_reason": "aborted_streaming",
            "errors": ["[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"], "stop_reason": None,
        }})
