#!/usr/bin/env python3
"""A fake agent CLI that speaks the NDJSON protocol and misbehaves on request.

It covers what the real CLI cannot be made to do. README.md next to this file lists the settings (FAKE_CLAUDE,
FAKE_CLAUDE_FILE or .fake-claude.json in the working directory or HOME) and the actions (`FAKE:[…]:END` in a prompt).
"""

import base64
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

DEFAULT_TEXT = "Hello from the fake CLI."
DEFAULT_MODEL = "claude-fake-1"
MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto", "manual")
# Nothing a test forgets may live for ever.
MAX_LIFE_SECONDS = 900
FLOOD_BLOCK_LINES = 4096
FLOOD_SLICE_SECONDS = 0.01
POLL_SECONDS = 0.005

# Controls that the real CLI answers with a payload of no interest here.
PLAIN_CONTROLS = {
    "set_max_thinking_tokens", "rename_session", "mcp_status", "get_context_usage", "get_session_cost", "list_models",
    "get_usage", "get_binary_version", "file_suggestions", "rewind_files", "read_file", "seed_read_state",
    "mcp_set_servers", "reload_plugins", "reload_skills", "reload_output_styles", "mcp_reconnect", "mcp_toggle",
    "set_has_subscribers", "stop_task", "background_tasks", "get_task_output", "apply_flag_settings", "get_settings",
    "get_hooks_listing", "update_settings", "list_permission_rules", "mcp_message", "side_question", "get_status",
}


def new_id():
    return str(uuid.uuid4())


def encode(value):
    """One compact line. Raw UTF-8 as the real CLI writes it; escapes only where a lone surrogate forbids that."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


class Interrupted(Exception):
    """The running turn was interrupted."""


class Out:
    """Standard output: whole writes, never interleaved between threads."""

    def __init__(self):
        self.lock = threading.RLock()

    def write(self, data):
        """A host that is gone is no reason to stop, as with the real CLI."""
        with self.lock:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(1, view):]
            except OSError:
                pass

    def line(self, value):
        self.write(encode(value) + b"\n")


def flag_values(argv):
    """`--flag=value`, `--flag value` and bare `--flag` as {flag: [values]}."""
    flags, name = {}, None
    for arg in argv:
        if arg.startswith("--"):
            name, joined, value = arg.partition("=")
            flags.setdefault(name, [])
            if joined:
                flags[name].append(value)
                name = None
        elif name is not None:
            flags[name].append(arg)
    return flags


def load_settings():
    """The behaviour: inline, from a named file, or from a file in the working directory or HOME."""
    home = os.environ.get("HOME", "/nonexistent")
    text = os.environ.get("FAKE_CLAUDE")
    for path in (os.environ.get("FAKE_CLAUDE_FILE"), ".fake-claude.json", os.path.join(home, ".fake-claude.json")):
        if text is None and path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
    settings = json.loads(text) if text else {}
    starts = settings.get("starts")
    if starts:
        count = count_start(settings.get("starts_file") or os.path.join(home, ".claude-fake", "starts"))
        settings.update(starts[min(count, len(starts) - 1)])
    return settings


def count_start(path):
    """How many starts came before this one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        before = file.tell()
        file.write(b"s")
    return before


class Fake:
    def __init__(self, argv):
        self.argv = argv
        self.flags = flag_values(argv)
        self.settings = load_settings()
        self.out = Out()
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
        threading.Thread(target=self.read_stdin, daemon=True).start()
        self.serve()
        return self.end_of_input()

    def install_signals(self):
        for number, name, code in ((signal.SIGTERM, "term", 143), (signal.SIGHUP, "hup", 129), (signal.SIGINT, "int", 0)):
            policy = self.settings.get(name, {})
            if policy.get("ignore"):
                signal.signal(number, signal.SIG_IGN)
            else:
                signal.signal(number, lambda *_, policy=policy, code=code: self.leave(policy, code))

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
            shutil.copyfile(self.transcript(resume), self.transcript(self.session_id))
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
        stop_after = self.settings.get("read_lines")
        bytes_left = self.settings.get("read_bytes_then_exit")
        record = open(self.settings["record_stdin"], "ab", buffering=0) if self.settings.get("record_stdin") else None
        buffer = b""
        while True:
            data = os.read(0, min(65536, bytes_left) if bytes_left else 65536)
            if record:
                record.write(data)
            if bytes_left is not None:
                bytes_left -= len(data)
                if bytes_left <= 0:
                    os._exit(1)
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self.take_line(line)
                if stop_after is not None:
                    stop_after -= 1
                    if stop_after <= 0:
                        return
            if not data:
                break
        if buffer.strip():
            self.take_line(buffer)
        with self.changed:
            self.at_eof = True
            self.changed.notify_all()

    def take_line(self, line):
        if not line.strip():
            if self.settings.get("blank_line_exits"):
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
        self.out.line({
            "type": "fake_answer", "request_id": request_id, "expected": request is not None, "valid": fault is None,
            "fault": fault, "response": response, "raw": line.decode("utf-8", "replace"),
        })

    def take_control(self, message):
        request_id, request = message.get("request_id"), message.get("request") or {}
        subtype = request.get("subtype")
        plan = self.settings.get("controls", {}).get(subtype, {})
        if plan.get("swallow"):
            return
        if "error" in plan:
            return self.respond_error(request_id, plan["error"], plan.get("error_code"))
        handler = getattr(self, f"control_{subtype}", None)
        if handler is not None:
            handler(request_id, request, plan)
        elif subtype in PLAIN_CONTROLS or "response" in plan:
            self.respond(request_id, plan.get("response", {}))
        else:
            self.respond_error(request_id, f"Unsupported control request subtype: {subtype}", "unsupported_request")

    def respond(self, request_id, payload):
        self.out.line({"type": "control_response", "response": {"subtype": "success", "request_id": request_id, "response": payload}})

    def respond_error(self, request_id, error, code=None):
        response = {"subtype": "error", "request_id": request_id, "error": error}
        if code:
            response["error_code"] = code
        self.out.line({"type": "control_response", "response": response})

    # ---- controls ---------------------------------------------------------------

    def control_initialize(self, request_id, _request, _plan):
        if not self.initialized and ("init" in self.settings or "before_init" in self.settings):
            # Own thread: what a late initialize is about is everything else going on meanwhile.
            threading.Thread(target=self.late_initialize, args=(request_id,), daemon=True).start()
        else:
            self.answer_initialize(request_id)

    def late_initialize(self, request_id):
        plan = self.settings.get("init", {})
        self.act_all(self.settings.get("before_init", []))
        time.sleep(plan.get("delay_ms", 0) / 1000)
        while plan.get("wait_file") and not os.path.exists(plan["wait_file"]):
            time.sleep(POLL_SECONDS)
        if plan.get("never"):
            return
        if "error" in plan:
            self.respond_error(request_id, plan["error"])
        else:
            self.answer_initialize(request_id)

    def answer_initialize(self, request_id):
        with self.changed:
            asked = [{"type": "control_request", "request_id": key, "request": value} for key, value in self.pending.items()
                     if value.get("subtype") == "can_use_tool"]
        payload = {
            "commands": [{"name": "clear", "description": "Clear the conversation", "argumentHint": ""}],
            "agents": [], "output_style": "default", "available_output_styles": ["default"],
            "models": [{"value": "default", "resolvedModel": self.model, "displayName": "Fake", "description": "A fake model"}],
            "account": {"tokenSource": "none", "apiProvider": "firstParty"}, "pid": os.getpid(),
            "claude_code_version": os.environ.get("FAKE_CLAUDE_VERSION") or self.settings.get("version") or "9.9.9",
            "current_permission_mode": self.mode, "session_state": self.state,
            "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"],
            "pending_permission_requests": asked, "pending_user_dialog_requests": [],
        }
        payload.update(self.settings.get("init", {}).get("payload", {}))
        self.respond(request_id, payload)
        with self.changed:
            self.initialized = True
            self.changed.notify_all()

    def control_interrupt(self, request_id, request, plan):
        with self.changed:
            cancelled = [key for key, value in self.pending.items() if value.get("subtype") == "can_use_tool"]
            for key in cancelled:
                del self.pending[key]
            queued = [message["uuid"] for message in self.prompts if message.get("uuid")]
            if request.get("cancel_queued"):
                self.prompts.clear()
        for key in cancelled:
            self.out.line({"type": "control_cancel_request", "request_id": key})
        payload = {"still_queued": [], "cancelled": queued} if request.get("cancel_queued") else {"still_queued": queued}
        self.respond(request_id, payload)
        for ident in queued if request.get("cancel_queued") else []:
            self.emit({"type": "command_lifecycle", "command_uuid": ident, "state": "cancelled"})
        with self.changed:
            if self.turn_open and not plan.get("no_effect"):
                self.interrupted = True
                self.changed.notify_all()

    def control_set_model(self, request_id, request, _plan):
        self.model = request.get("model") or DEFAULT_MODEL
        self.respond(request_id, {"model": self.model})

    def control_set_permission_mode(self, request_id, request, _plan):
        mode = request.get("mode")
        if mode not in MODES:
            return self.respond_error(request_id, f"Invalid permission mode: {mode}", "invalid_mode")
        allowed = self.flag("--permission-mode") == "bypassPermissions" or "--allow-dangerously-skip-permissions" in self.flags
        if mode == "bypassPermissions" and not allowed:
            return self.respond_error(request_id, "Cannot set permission mode to bypassPermissions", "bypass_not_launched")
        self.mode = mode
        self.emit({"type": "system", "subtype": "status", "status": None, "permissionMode": mode})
        self.respond(request_id, {"mode": mode})

    def control_cancel_async_message(self, request_id, request, _plan):
        ident = request.get("message_uuid")
        with self.changed:
            kept = [message for message in self.prompts if message.get("uuid") != ident]
            cancelled = len(kept) < len(self.prompts)
            self.prompts[:] = kept
        if cancelled:
            self.emit({"type": "command_lifecycle", "command_uuid": ident, "state": "cancelled"})
        self.respond(request_id, {"cancelled": cancelled, "message_uuid": ident})

    def control_end_session(self, request_id, _request, _plan):
        self.respond(request_id, {})
        self.save_total()
        os._exit(0)

    # ---- turns --------------------------------------------------------------------

    def serve(self):
        if self.settings.get("after_init"):
            self.wait(lambda: self.initialized or self.at_eof)
            self.act_all(self.settings["after_init"])
        while True:
            self.wait(lambda: self.prompts or self.at_eof)
            with self.changed:
                batch = self.prompts[:] if self.settings.get("merge", True) else self.prompts[:1]
                del self.prompts[: len(batch)]
            if not batch:
                return
            self.run_prompts(batch)

    def end_of_input(self):
        policy = self.settings.get("eof", {})
        if policy.get("ignore"):
            while True:
                signal.pause()
        if not policy.get("loses_total"):
            self.save_total()
        self.leave(policy, 1 if self.last_was_error else 0)

    def run_prompts(self, batch):
        texts = [prompt_text(message) for message in batch]
        self.running_uuids = [message["uuid"] for message in batch if message.get("uuid")]
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

    # ---- actions ------------------------------------------------------------------

    def act_all(self, actions):
        for action in actions:
            self.check_interrupt()
            self.act(action)

    def act(self, action):
        for name in action:
            handler = getattr(self, f"act_{name}", None)
            if handler is not None:
                return handler(action)
        self.fail(f"fake CLI: no such action: {json.dumps(action)}", 98)

    def act_text(self, action):
        """An assistant line; stream events before it if partial messages are on."""
        text = action["text"] * action.get("repeat", 1)
        self.last_text = text
        message_id = action.get("id") or f"msg_fake_{new_id()}"
        usage = action.get("usage") or token_usage(100, 1)
        if "--include-partial-messages" in self.flags and not action.get("whole"):
            self.stream_text(message_id, text, usage, action)
        for _ in range(action.get("copies", 1)):
            self.assistant(message_id, [{"type": "text", "text": text}], usage)

    def assistant(self, message_id, content, usage):
        message = {"id": message_id, "type": "message", "role": "assistant", "model": self.model, "content": content,
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        self.save({"type": "assistant", "message": message})
        self.emit({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def stream_text(self, message_id, text, usage, action):
        def event(value):
            self.emit({"type": "stream_event", "event": value, "parent_tool_use_id": None, "api_message_id": message_id})

        event({"type": "message_start", "message": {"id": message_id, "type": "message", "role": "assistant", "model": self.model,
                                                    "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}})
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        size = action.get("chunk_size", 8)
        for at in range(0, len(text), size):
            self.check_interrupt()
            event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at:at + size]}})
            if action.get("chunk_ms"):
                self.pause(action["chunk_ms"])
        event({"type": "content_block_stop", "index": 0})
        event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}})
        event({"type": "message_stop"})

    def act_result(self, action):
        """The end of the turn. Overrides with a null `total_cost_usd` or `modelUsage` leave the field out."""
        cost = action.get("cost", self.settings.get("cost", 0.0008))
        self.total = self.costs.pop(0) if self.costs else self.total + cost
        used = self.usage.setdefault(self.model, {
            "inputTokens": 0, "outputTokens": 0, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0,
            "webSearchRequests": 0, "costUSD": 0, "contextWindow": 200000, "maxOutputTokens": 32000})
        if cost:
            used["inputTokens"] += 100
            used["outputTokens"] += 20
        used["costUSD"] = self.total
        result = {
            "type": "result", "subtype": "success", "is_error": False, "result": self.last_text, "num_turns": 1,
            "duration_ms": 1, "duration_api_ms": 1, "stop_reason": "end_turn", "terminal_reason": "completed",
            "total_cost_usd": self.total, "usage": token_usage(100, 20), "modelUsage": self.usage,
            "permission_denials": [], "result_index": self.results,
        }
        if self.running_uuids:
            result["user_message_uuids"] = self.running_uuids
        if self.origin:
            result["origin"] = self.origin
        overrides = action.get("result") or {}
        result.update(overrides)
        if isinstance(overrides.get("total_cost_usd"), (int, float)):
            self.total = overrides["total_cost_usd"]
        for key in ("total_cost_usd", "modelUsage", "result"):
            if key in overrides and overrides[key] is None:
                del result[key]
        self.results += 1
        self.last_was_error = bool(result["is_error"])
        self.turn_open = False
        self.emit(result)
        self.lifecycle("completed")
        self.running_uuids = []

    def act_no_result(self, _action):
        """The turn ends without a result, as a stuck CLI's does."""
        self.turn_open = False

    def act_turn(self, action):
        """A turn the CLI starts by itself, as after a background task."""
        plan = action["turn"]
        self.turn(plan.get("do", [{"text": "done."}]), origin=plan.get("origin", {"kind": "task-notification"}))

    def act_line(self, action):
        for _ in range(action.get("copies", 1)):
            value = json.loads(self.filled(json.dumps(action["line"])))
            self.out.line(value)

    def act_raw(self, action):
        self.out.write(self.filled(action["raw"]).encode("utf-8", "surrogatepass") + (b"" if action.get("no_newline") else b"\n"))

    def act_raw_b64(self, action):
        self.out.write(base64.b64decode(action["raw_b64"]))

    def filled(self, text):
        return text.replace("$SESSION_ID", self.session_id).replace("$UUID", new_id())

    def act_script(self, action):
        with open(action["script"], "rb") as file:
            for line in file.read().split(b"\n"):
                if line:
                    self.out.write(line + b"\n")
                    if action.get("delay_ms"):
                        self.pause(action["delay_ms"])

    def act_big(self, action):
        self.act_text({"text": "x" * action["big"], "whole": True})

    def act_invalid_utf8(self, _action):
        self.out.write(b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"bad \xff\xfe\xc3( bytes"}]}}\n')

    def act_surrogate(self, _action):
        self.act_raw({"raw": '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_s",'
                             '"content":"cut \\ud83d here"}]},"parent_tool_use_id":null,"session_id":"$SESSION_ID","uuid":"$UUID"}'})

    def act_separators(self, _action):
        """Characters that readers which follow Unicode line ends wrongly split at."""
        self.act_text({"text": "a\u2028b\u2029c\u0085d\re\x0bf\x0cg", "whole": True})

    def act_flood(self, action):
        """`flood` numbered stream events, flat out or at `rate` lines a second, each at least `bytes` long."""
        count, rate = action["flood"], action.get("rate")
        head = b'{"type":"stream_event","n":'
        tail = b',"event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}},"parent_tool_use_id":null}\n'
        pad = max(0, action.get("bytes", 300) - len(head) - len(tail) - 6)
        one = head + b"%8d" + tail.replace(b"%s", b"x" * pad)
        size = max(1, int(rate * FLOOD_SLICE_SECONDS)) if rate else FLOOD_BLOCK_LINES
        began = time.monotonic()
        for first in range(0, count, size):
            self.check_interrupt()
            numbers = range(first, min(first + size, count))
            self.out.write((one * len(numbers)) % tuple(numbers))
            if rate:
                ahead = began + numbers[-1] / rate - time.monotonic()
                if ahead > 0:
                    self.pause(ahead * 1000)

    def act_stderr(self, action):
        data = action["stderr"]
        data = b"e" * data if isinstance(data, int) else data.encode()
        while data:
            data = data[os.write(2, data):]

    def act_sleep_ms(self, action):
        self.pause(action["sleep_ms"])

    def act_wait_file(self, action):
        self.wait_file(action["wait_file"])

    def act_wait_init(self, _action):
        self.wait(lambda: self.initialized or self.at_eof)

    def act_wait_answer(self, action):
        self.wait(lambda: action["wait_answer"] in self.answers or self.at_eof)

    def act_silent(self, _action):
        """Nothing more, for ever; only an interrupt or a signal ends it."""
        self.wait(lambda: False)

    def act_touch(self, action):
        with open(action["touch"], "ab"):
            pass

    def act_dump(self, _action):
        self.emit({"type": "fake_dump", **self.start_facts()})

    def act_exit(self, action):
        os._exit(action["exit"])

    def act_crash(self, action):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = getattr(signal, action["crash"])
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pause()

    def act_close_stdout(self, _action):
        os.close(1)

    def act_set_session_id(self, action):
        self.session_id = action["set_session_id"]

    def act_request(self, action):
        """Any control request to the host. `wait` (default) holds the turn until it is answered or stdin ends."""
        ident = action.get("id") or new_id()
        self.send_request(ident, action["request"])
        if action.get("wait", True):
            self.wait(lambda: ident in self.answers or self.at_eof)

    def send_request(self, ident, request):
        with self.changed:
            self.pending[ident] = request
            self.answers.pop(ident, None)
        self.out.line({"type": "control_request", "request_id": ident, "request": request})

    def act_cancel(self, action):
        with self.changed:
            self.pending.pop(action["cancel"], None)
        self.out.line({"type": "control_cancel_request", "request_id": action["cancel"]})

    def act_ask(self, action):
        """Tool calls that need permission, all asked at once; the results follow when every answer is there."""
        plan = action["ask"]
        count = plan.get("n", 1)
        idents = plan.get("ids") or [new_id() for _ in range(count)]
        tool_ids = plan.get("tool_use_ids") or [f"toolu_{new_id()}" for _ in idents]
        tool, given = plan.get("tool", "Bash"), plan.get("input", {"command": "echo hi"})
        for tool_id in tool_ids:
            self.assistant(f"msg_fake_{new_id()}", [{"type": "tool_use", "id": tool_id, "name": tool, "input": given}], token_usage(100, 1))
        self.set_state("requires_action")
        for ident, tool_id in zip(idents, tool_ids):
            self.send_request(ident, {
                "subtype": "can_use_tool", "tool_name": tool, "display_name": tool, "input": given, "tool_use_id": tool_id,
                "permission_suggestions": plan.get("suggestions", []), **plan.get("extra", {})})
        if not plan.get("wait", True):
            return
        self.wait(lambda: self.at_eof or all(ident in self.answers or ident not in self.pending for ident in idents))
        self.set_state("running")
        for ident, tool_id in zip(idents, tool_ids):
            self.tool_result(tool_id, given, self.answers.get(ident))

    def tool_result(self, tool_id, given, answer):
        fault = answer_fault({"subtype": "can_use_tool"}, answer, self.settings.get("strict", True)) if answer else "no answer"
        decision = (answer or {}).get("response") or {}
        refused = fault is not None or decision.get("behavior") != "allow"
        used = given if refused else decision.get("updatedInput", given)
        content = (fault or decision.get("message")) if refused else f"ran {encode(used).decode('utf-8', 'replace')}"
        block = {"type": "tool_result", "tool_use_id": tool_id, "content": content, "is_error": refused}
        self.emit({"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None})
        if refused and decision.get("interrupt"):
            self.interrupted = True
            self.check_interrupt()

    def act_child(self, action):
        """A process that outlives this one: `setsid`, `double_fork`, `ignore_term`, `hold_output`, `clear_env`, `say_ms`."""
        plan = action["child"] if isinstance(action["child"], dict) else {}
        read_end, write_end = os.pipe()
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")} if plan.get("clear_env") else dict(os.environ)
        if plan.get("marker"):
            env["FAKE_CHILD_MARKER"] = plan["marker"]
        output = None if plan.get("hold_output") else subprocess.DEVNULL
        subprocess.Popen(
            [sys.executable, "-S", "-c", CHILD_PROGRAM, str(write_end), json.dumps(plan)], env=env, pass_fds=[write_end],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=bool(plan.get("setsid")))
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            pid = int(pipe.read())
        if plan.get("pid_file"):
            with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(plan["pid_file"]), delete=False) as file:
                file.write(str(pid))
            os.rename(file.name, plan["pid_file"])
        self.emit({"type": "fake_child", "pid": pid})


CHILD_PROGRAM = """
import json, os, signal, sys, time
plan = json.loads(sys.argv[2])
if plan.get("double_fork") and os.fork():
    os._exit(0)
if plan.get("ignore_term"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(int(sys.argv[1]), str(os.getpid()).encode())
os.close(int(sys.argv[1]))
end = time.monotonic() + plan.get("seconds", 600)
while time.monotonic() < end:
    time.sleep(plan["say_ms"] / 1000 if plan.get("say_ms") else end - time.monotonic())
    if plan.get("say_ms"):
        os.write(1, b'{"type":"system","subtype":"fake_late","pid":%d}\\n' % os.getpid())
"""


def is_uuid(text):
    return re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) is not None


def token_usage(input_tokens, output_tokens):
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def prompt_text(message):
    content = message["message"].get("content")
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if isinstance(block, dict))


def prompt_actions(text):
    """The actions a prompt carries: `FAKE:[…]:END`, or one action `FAKE:{…}:END`."""
    actions = []
    for source in re.findall(r"FAKE:([\[{].*?[\]}]):END", text, re.DOTALL):
        found = json.loads(source)
        actions.extend(found if isinstance(found, list) else found.get("do", [found]))
    return actions


def answer_fault(request, response, strict):
    """What is wrong with a permission answer, or None. Strict: allow needs `updatedInput`, as older CLIs demand."""
    if request.get("subtype") != "can_use_tool" or response.get("subtype") == "error":
        return None if request.get("subtype") != "can_use_tool" else "Tool permission request failed: Error: " + str(response.get("error"))
    decision = response.get("response")
    if not isinstance(decision, dict):
        return "invalid permission result: not an object"
    if decision.get("behavior") == "allow":
        if strict and not isinstance(decision.get("updatedInput"), dict):
            return "invalid permission result: updatedInput is missing"
        return None
    if decision.get("behavior") == "deny":
        return None if isinstance(decision.get("message"), str) else "invalid permission result: message is missing"
    return "invalid permission result: unknown behavior"


if __name__ == "__main__":
    sys.exit(Fake(sys.argv[1:]).run())
