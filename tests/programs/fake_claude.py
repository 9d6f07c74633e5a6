#!/usr/bin/env -S python3 -ES
"""A fake agent CLI that speaks the NDJSON protocol and misbehaves on request.

It covers what the real CLI cannot be made to do. README.md next to this file lists the settings (FAKE_CLAUDE,
FAKE_CLAUDE_FILE or .fake-claude.json in the working directory or HOME) and the actions (`FAKE:[…]:END` in a prompt).
"""

import sys

# Python keeps what it compiled of a module, and compiles the program itself at each start.
from fake_cli.program import Fake

if __name__ == "__main__":
    sys.exit(Fake(sys.argv[1:]).run())
