"""Becomes another program and passes files on to it, as a service manager does: `pass_sockets.py NAME=FD … -- PROGRAM ARG …`.

The files, which this program has inherited, get the numbers from 3 on.
"""

import fcntl
import os
import sys

split = sys.argv.index("--")
passed = [word.split("=") for word in sys.argv[1:split]]
# First out of the way of the numbers that they are to have.
moved = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for _, fd in passed]
for number, fd in enumerate(moved, start=3):
    os.dup2(fd, number)
    os.close(fd)
os.environ.update(
    LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(passed)), LISTEN_FDNAMES=":".join(name for name, _ in passed))
os.execv(sys.argv[split + 1], sys.argv[split + 1:])
