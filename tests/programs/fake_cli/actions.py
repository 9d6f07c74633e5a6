"""Owns the actions: what a prompt or a setting makes the fake CLI do."""

import json
import os
import resource
import signal
import sys
import time

from .wire import answer_fault, encode, new_id, token_usage

FLOOD_BLOCK_LINES = 4096
FLOOD_SLICE_SECONDS = 0.01

CHILD_PROGRAM = """
import json, os, signal, sys, time
plan = json.loads(sys.argv[2])
if plan.get("double_fork") and os.fork():
    os._exit(0)
if plan.get("ignore_term"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if plan.get("wipe_env"):
    first, last = (int(place) for place in open("/proc/self/stat").read().rsplit(")", 1)[1].split()[47:49])
    with open("/proc/self/mem", "r+b", 0) as memory:
        memory.seek(first)
        memory.write(bytes(last - first))
end = time.monotonic() + plan.get("seconds", 600)

def pass_on():
    # A chain of processes: each lives for a moment, forks the next one, and ends.
    if os.fork():
        return
    os.closerange(3, 64)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while time.monotonic() < end:
        time.sleep(0.02)
        if os.fork():
            os._exit(0)
    os._exit(0)

def spread(*_):
    for _ in range(plan["storm"]):
        pass_on()

if plan.get("storm"):
    signal.signal(signal.SIGTERM, spread)
    spread()
os.write(int(sys.argv[1]), str(os.getpid()).encode())
os.close(int(sys.argv[1]))
while time.monotonic() < end:
    time.sleep(plan["say_ms"] / 1000 if plan.get("say_ms") else max(0, end - time.monotonic()))
    if plan.get("say_ms"):
        os.write(1, b'{"type":"system","subtype":"fake_late","pid":%d}\\n' % os.getpid())
"""


class Actions:
    """The part of the fake CLI that performs actions: an action `{"name": …}` is the method `act_name`."""

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
        """An assistant line; stream events before it if partial messages are on. `only`: "whole" or "deltas"."""
        text = action["text"] * action.get("repeat", 1)
        self.last_text = text
        message_id = action.get("id") or f"msg_fake_{new_id()}"
        usage = action.get("usage") or token_usage(100, 1)
        only = action.get("only")
        if only == "deltas" or ("--include-partial-messages" in self.flags and only != "whole"):
            self.stream_text(message_id, text, usage, action)
        for _ in range(0 if only == "deltas" else action.get("copies", 1)):
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
        # Imported where they are used, as most runs do not: base64 here, subprocess below.
        import base64

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
        self.act_text({"text": "x" * action["big"], "only": "whole"})

    def act_invalid_utf8(self, _action):
        self.out.write(b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"bad \xff\xfe\xc3( bytes"}]}}\n')

    def act_surrogate(self, _action):
        self.act_raw({"raw": '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_s",'
                             '"content":"cut \\ud83d here"}]},"parent_tool_use_id":null,"session_id":"$SESSION_ID","uuid":"$UUID"}'})

    def act_separators(self, _action):
        """Characters that readers which follow Unicode line ends wrongly split at."""
        self.act_text({"text": "a\u2028b\u2029c\u0085d\re\x0bf\x0cg", "only": "whole"})

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

    def act_call(self, action):
        """A call of a tool. The hook `callback` is asked first: the tool runs, or does not, or waits for the next process."""
        call = action["call"]
        ident = new_id()
        self.send_request(ident, {
            "subtype": "hook_callback", "callback_id": call["callback"], "tool_use_id": call["id"],
            "input": {"hook_event_name": "PreToolUse", "tool_name": call["tool"], "tool_input": call["input"], "tool_use_id": call["id"]}})
        self.wait(lambda: ident in self.answers or self.at_eof)
        output = self.answers.get(ident, {}).get("response") or {}
        said = output.get("hookSpecificOutput") or {}
        if said.get("permissionDecision") == "defer":
            self.keep_call(call)
            named = {"id": call["id"], "name": call["tool"], "input": call["input"]}
            return self.act_result({"result": {"terminal_reason": "tool_deferred", "deferred_tool_use": named}})
        if ident not in self.answers:
            return None
        self.keep_call(None)
        if said.get("permissionDecision") == "deny":
            decision = {"behavior": "deny", "message": said.get("permissionDecisionReason", "denied")}
        else:
            decision = {"behavior": "allow", "updatedInput": said.get("updatedInput", call["input"])}
        return self.tool_result(call["id"], call["input"], {"response": decision})

    def keep_call(self, call):
        """The call that the next process begins with."""
        self.put_off = call
        self.save({"type": "put_off", "call": call})

    def begin_with_call(self):
        """Prompts that are there already come after it."""
        if self.put_off:
            self.wait(lambda: self.initialized or self.at_eof)
            self.turn([{"call": self.put_off}])

    def act_child(self, action):
        """A process that outlives this one: `setsid`, `double_fork`, `ignore_term`, `hold_output`, `clear_env`, `wipe_env`, `storm`, `say_ms`, `shell`."""
        import subprocess

        plan = action["child"] if isinstance(action["child"], dict) else {}
        read_end, write_end = os.pipe()
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")} if plan.get("clear_env") else dict(os.environ)
        if plan.get("marker"):
            env["FAKE_CHILD_MARKER"] = plan["marker"]
        output = None if plan.get("hold_output") else subprocess.DEVNULL
        program = [sys.executable, "-S", "-c", CHILD_PROGRAM, str(write_end), json.dumps(plan)]
        if "shell" in plan:
            program = ["sh", "-c", f"echo $$; exec >/dev/null 2>&1; {plan['shell']}"]
            output = write_end
        subprocess.Popen(
            program, env=env, pass_fds=() if "shell" in plan else [write_end],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=bool(plan.get("setsid")))
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            pid = int(pipe.read())
        if plan.get("pid_file"):
            with open(plan["pid_file"] + ".part", "w", encoding="ascii") as file:
                file.write(str(pid))
            os.rename(plan["pid_file"] + ".part", plan["pid_file"])
        self.emit({"type": "fake_child", "pid": pid})
