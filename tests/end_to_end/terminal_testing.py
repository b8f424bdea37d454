"""A program on a pseudo-terminal: what a person types, what the terminal shows."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from programs import TIMEOUT_S, environment


class Terminal:
    """Runs argv on a terminal of its own; everything it writes is in `seen`."""

    def __init__(self, argv, columns=80, **changes):
        self.pid, self.leader = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, environment(**{"TERM": "xterm", **changes}))
        self.seen = b""
        self.returncode = None
        self.resize(columns)

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.leader, text)

    def read_some(self):
        """False at the end of the program's output."""
        if not select.select([self.leader], [], [], 0.1)[0]:
            return True
        try:
            piece = os.read(self.leader, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += piece
        return bool(piece)

    def wait_for(self, text, since=0):
        """Until `text` (bytes, or a compiled pattern) was written behind the first `since` bytes; returns where it ends."""
        pattern = text if isinstance(text, re.Pattern) else re.compile(re.escape(text))
        end = time.monotonic() + TIMEOUT_S
        while True:
            found = pattern.search(self.seen, since)
            if found:
                return found.end()
            if time.monotonic() > end or not self.read_some():
                raise AssertionError(f"{text!r} was not shown behind {self.seen[since:]!r}")

    def has_ended(self):
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None

    def wait(self):
        """The exit code, once the program has ended; what it still writes is read."""
        end = time.monotonic() + TIMEOUT_S
        while not self.has_ended():
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            self.read_some()
        while select.select([self.leader], [], [], 0)[0] and self.read_some():
            pass
        return self.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self.leader)


class Screen:
    """What a terminal of so many columns shows of the given bytes, from an empty line on: rows of text."""

    SEQUENCE = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|\x1b[=>]")

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [[]], 0, 0

    def put(self, character):
        if self.column == self.columns:
            self.row, self.column = self.row + 1, 0
        while len(self.rows) <= self.row:
            self.rows.append([])
        row = self.rows[self.row]
        row.extend(" " * (self.column + 1 - len(row)))
        row[self.column] = character
        self.column += 1

    def obey(self, numbers, letter):
        count = int(numbers or 1) if numbers.isdigit() or not numbers else 1
        row = self.rows[self.row] if self.row < len(self.rows) else []
        if letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "B":
            self.row += count
        elif letter == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif letter == "D":
            self.column = max(0, self.column - count)
        elif letter == "G":
            self.column = count - 1
        elif letter == "K":
            del row[self.column:]
        elif letter == "J":
            del row[self.column:], self.rows[self.row + 1:]
        elif letter == "P":
            del row[self.column:self.column + count]
        elif letter == "@":
            row[self.column:self.column] = " " * count

    def write(self, data):
        text = data.decode(errors="replace")
        at = 0
        while at < len(text):
            sequence = self.SEQUENCE.match(text, at)
            if sequence:
                self.obey(sequence[1] or "", sequence[2] or "")
                at = sequence.end()
                continue
            if text[at] == "\r":
                self.column = 0
            elif text[at] == "\n":
                self.row += 1
            elif text[at] == "\b":
                self.column = max(0, min(self.column, self.columns) - 1)
            elif text[at] >= " ":
                self.put(text[at])
            at += 1
        return self

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows)
