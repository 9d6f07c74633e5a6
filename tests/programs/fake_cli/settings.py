"""Owns what a start is told: flags of the command line, and the settings that choose its behaviour."""

import json
import os
import re


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


def is_uuid(text):
    return re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) is not None
