"""Owns what goes over the wire: ids, encoding, whole writes, and what makes a permission answer valid."""

import json
import os
import re
import threading


def new_id():
    """A random UUID; the module `uuid` takes longer to load than all of the program."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def encode(value):
    """One compact line. Raw UTF-8 as the real CLI writes it; escapes only where a lone surrogate forbids that."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


class Interrupted(Exception):
    """The running turn was interrupted."""


class Out:
    """Standard output: whole writes, never interleaved between threads. `log_dir` keeps what the pipe took, in a file per run."""

    def __init__(self, log_dir=None):
        self.lock = threading.RLock()
        self.log = None
        if log_dir:
            name = os.environ.get("TRUNKLINE_RUN") or str(os.getpid())
            self.log = os.open(os.path.join(log_dir, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, data):
        """A host that is gone is no reason to stop, as with the real CLI."""
        with self.lock:
            view = memoryview(data)
            try:
                while view:
                    written = os.write(1, view)
                    if self.log is not None:
                        os.write(self.log, view[:written])
                    view = view[written:]
            except OSError:
                pass

    def line(self, value):
        self.write(encode(value) + b"\n")


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
    """Return the fault of a permission answer, or None. Strict: allow needs `updatedInput`, as older CLIs demand."""
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
