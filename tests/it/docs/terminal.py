"""Plays a person at a terminal: terminal.py DIALOG COMMAND.

DIALOG is a JSON list of [awaited, typed]. Prints what the command printed, and ends as it did.
"""
import json
import os
import pty
import select
import sys
import time

PATIENCE_S = 60


def main():
    dialog, command = json.loads(sys.argv[1]), sys.argv[2]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", f"exec {command}"])
    end = time.monotonic() + PATIENCE_S
    said, seen = b"", 0
    while time.monotonic() < end:
        if dialog:
            awaited, typed = dialog[0]
            at = said.find(awaited.encode(), seen)
            if at >= 0:
                seen = at + len(awaited)
                os.write(terminal, typed.encode())
                dialog.pop(0)
                continue
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(terminal, 4096)
        except OSError:  # Linux says so at the end of a terminal.
            break
        if not data:
            break
        said += data
    else:
        os.kill(pid, 9)
    sys.stdout.write(said.decode(errors="replace"))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if dialog:
        sys.exit(f"\nwaited in vain for {dialog[0][0]!r}")
    sys.exit(status)


main()
