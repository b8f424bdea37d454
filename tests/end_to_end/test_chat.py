"""Chats of nvllm-run on a terminal: pastes, several lines, resizing, Ctrl-Z, control characters, how they end."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from programs import DEMO, RUN, TIMEOUT_S, FolderTest, environment
from terminal_testing import Screen, Terminal

CHAT = [RUN, "-m", DEMO, "--temperature", "0", "-n", "5"]
PASTE, PASTED = b"\x1b[200~", b"\x1b[201~"
PROMPT = b"> "
ESC_ALONE = ["--allowed-token-ids", "221", "-n", "3"]  # the demo's token of ESC


class ChatTest(FolderTest):
    def ready(self, terminal):
        """Until the editor waits for the first line; returns where the prompt ends."""
        return terminal.wait_for(PROMPT, terminal.wait_for(b"/help lists commands."))

    def say(self, terminal, keys):
        """Types a message and waits for the prompt behind its answer."""
        begin = len(terminal.seen)
        terminal.type(keys)
        return terminal.wait_for(PROMPT, terminal.wait_for(re.compile(rb"tokens to the first|a second\]"), begin))

    def saved(self, terminal):
        """The conversation's messages."""
        file = self.folder / "chat.json"
        begin = len(terminal.seen)
        terminal.type(b"/save " + bytes(file) + b"\r")
        terminal.wait_for(PROMPT, terminal.wait_for(b"saved", begin))
        return json.loads(file.read_text())

    def said(self, terminal):
        return [message["content"] for message in self.saved(terminal) if message["role"] == "user"]

    def leave(self, terminal):
        # The editor takes over the terminal just after it shows the prompt: a Ctrl-D that comes between ends up in the line,
        # which is emptied (Ctrl-U) first.
        end = time.monotonic() + TIMEOUT_S
        while not terminal.has_ended():
            self.assertLess(time.monotonic(), end, terminal.seen)
            terminal.type(b"\x15\x04")
            if not terminal.read_some():
                break  # it closed the terminal: what is typed now nobody reads, and a full queue blocks
        self.assertEqual(terminal.wait(), 0, terminal.seen)


class SeveralLines(ChatTest):
    def test_a_paste_is_one_message(self):
        with Terminal(CHAT) as terminal:
            self.ready(terminal)
            self.assertIn(b"\x1b[?2004h", terminal.seen)
            terminal.type(PASTE + "größer\r\tzwei\r\rdrei".encode() + PASTED)
            terminal.wait_for(b"drei")
            self.say(terminal, b" and more\r")
            self.assertEqual(self.said(terminal), ["größer\n\tzwei\n\ndrei and more"])
            self.leave(terminal)
            self.assertTrue(terminal.seen.rindex(b"\x1b[?2004l") > terminal.seen.rindex(b"\x1b[?2004h"))

    def test_lines_that_are_typed(self):
        with Terminal(CHAT) as terminal:
            self.ready(terminal)
            terminal.type(b"/help\r")
            begin = terminal.wait_for(PROMPT, terminal.wait_for(b'"""'))
            terminal.type(b"a path C:\\\\\\\r")  # two of a text's own, and one that goes on
            begin = terminal.wait_for(b"... ", begin)
            self.say(terminal, b"next\r")
            self.say(terminal, b"one\x1b\rtwo\r")
            begin = len(terminal.seen)
            terminal.type(b'"""\r')
            begin = terminal.wait_for(b"... ", begin)
            terminal.type(b"in\\\r")
            begin = terminal.wait_for(b"... ", begin)
            self.say(terminal, b'block"""\r')
            self.say(terminal, b'"""alone"""\r')
            self.assertEqual(self.said(terminal), ["a path C:\\\\\nnext", "one\ntwo", "in\\\nblock", "alone"])
            begin = len(terminal.seen)
            terminal.type(b'"""never')  # Ctrl-C forgets what is being typed
            terminal.wait_for(b"never", begin)
            terminal.type(b"\r")
            begin = terminal.wait_for(b"... ", begin)
            terminal.type(b"\x03")
            terminal.wait_for(b"\n> ", begin)
            self.assertEqual(len(self.said(terminal)), 4)
            self.leave(terminal)


class Window(ChatTest):
    def test_backspace_after_a_resize(self):
        words = b"aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj kkkk llll mmmm nnnn"
        with Terminal(CHAT, columns=90) as terminal:
            self.ready(terminal)
            terminal.type(words)
            terminal.wait_for(words[-5:])
            begin = len(terminal.seen)
            terminal.resize(40)
            # 71 columns: the line begins one row above the cursor; all is drawn anew from there.
            begin = terminal.wait_for(b"\r\x1b[1A\x1b[J", begin)
            terminal.wait_for(b"nnnn", begin)
            self.assertIn("nnnn", Screen(40).write(terminal.seen[begin:]).text())
            erased = len(terminal.seen)
            terminal.type(b"\x7f" * 4 + b"x")
            terminal.wait_for(b"x", erased)
            shown = Screen(40).write(terminal.seen[begin:]).text()
            self.assertTrue(shown.startswith("> aaaa bbbb"), shown)
            self.assertTrue(shown.rstrip().endswith("mmmm x"), shown)
            self.say(terminal, b"\r")
            self.assertEqual(self.said(terminal), [(words[:-4] + b"x").decode()])
            self.leave(terminal)

    def test_suspended_and_continued(self):
        with Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], PS1="shell$ ") as terminal:
            begin = terminal.wait_for(b"shell$ ")
            terminal.type(" ".join(CHAT).encode() + b"\r")
            begin = terminal.wait_for(PROMPT, terminal.wait_for(b"lists commands.", begin))
            terminal.type(b"half a ")
            begin = terminal.wait_for(b"half a ", begin)
            terminal.type(b"\x1a")
            begin = terminal.wait_for(b"shell$ ", terminal.wait_for(b"Stopped", begin))
            terminal.type(b"fg\r")
            begin = terminal.wait_for(b"> half a ", begin)
            begin_line = begin
            terminal.type(b"line\r")
            terminal.wait_for(PROMPT, terminal.wait_for(b"a second]", begin))
            self.assertEqual(terminal.seen[begin_line:].count(b"line"), 1, terminal.seen)  # not echoed by the terminal too
            self.assertEqual(self.said(terminal), ["half a line"])
            terminal.type(b"/exit\r")
            terminal.wait_for(b"shell$ ", len(terminal.seen) - 1)
            terminal.type(b"exit\r")
            self.assertEqual(terminal.wait(), 0)


class Answers(ChatTest):
    def test_control_characters_are_shown(self):
        with Terminal([RUN, "-m", DEMO, *ESC_ALONE]) as terminal:
            begin = self.ready(terminal)
            self.say(terminal, b"Hi\r")
            self.assertIn(b"^[^[^[", terminal.seen[begin:])
            self.assertNotIn(b"\x1b\x1b", terminal.seen[begin:])
            self.assertEqual(self.saved(terminal)[-1]["content"], "\x1b\x1b\x1b")
            self.leave(terminal)
        with Terminal([RUN, "-m", DEMO, *ESC_ALONE, "-p", "x"]) as terminal:
            self.assertEqual(terminal.wait(), 0)
            self.assertIn(b"^[^[^[", terminal.seen)
            self.assertNotIn(b"\x1b", terminal.seen)
        piped = subprocess.run([RUN, "-m", DEMO, *ESC_ALONE, "-p", "x"], capture_output=True, timeout=TIMEOUT_S,
                               env=environment())
        self.assertEqual(piped.stdout, b"\x1b\x1b\x1b\n")

    def test_errors_are_shown_harmlessly(self):
        with Terminal([RUN, "-m", DEMO, "-p", "x", "--output-format", "\x1b[31mred"]) as terminal:
            self.assertEqual(terminal.wait(), 64)
            self.assertIn(b"^[[31mred", terminal.seen)
            self.assertNotIn(b"\x1b", terminal.seen)

    def test_two_answers_are_refused(self):
        with Terminal([*CHAT, "--n", "2"]) as terminal:
            self.assertEqual(terminal.wait(), 64)
            self.assertIn(b"--n 2: a chat has one answer", terminal.seen)

    def test_why_an_answer_ends(self):
        with Terminal(CHAT) as terminal:
            begin = self.ready(terminal)
            self.say(terminal, b"Tell me a story\r")
            self.assertIn(b"[cut off after 5 tokens", terminal.seen[begin:])
            self.leave(terminal)
        with Terminal([*CHAT[:5], "--max-model-len", "64", "--ignore-eos"]) as terminal:
            begin = self.ready(terminal)
            self.say(terminal, b"Tell me a story\r")
            self.assertIn(b"the context of 64 tokens is full", terminal.seen[begin:])
            self.leave(terminal)

    def test_typed_during_an_answer(self):
        with Terminal([*CHAT[:5], "-n", "400", "--ignore-eos"]) as terminal:
            begin = self.ready(terminal)
            terminal.type(b"Tell me a story\r")
            begin = terminal.wait_for(b"\n", begin)  # Enter was taken
            terminal.wait_for(re.compile(rb"[a-z]{3}"), begin)
            terminal.type(b"QQQ")
            end = terminal.wait_for(b"[cut off after", begin)
            self.assertNotIn(b"QQQ", terminal.seen[begin:end])
            end = terminal.wait_for(b"QQQ", end)
            terminal.type(b"\x03")
            terminal.wait_for(b"\n> ", end)
            self.leave(terminal)


class Ends(ChatTest):
    def test_terminated_at_the_prompt(self):
        with Terminal(CHAT) as terminal:
            self.ready(terminal)
            os.kill(terminal.pid, signal.SIGTERM)
            self.assertEqual(terminal.wait(), 143)

    def test_answers_into_a_pipe(self):
        command = " ".join(CHAT) + " | cat > " + str(self.folder / "log")
        with Terminal(["/bin/bash", "-c", command]) as terminal:
            begin = self.ready(terminal)
            terminal.type(b"Hi\r")
            terminal.wait_for(PROMPT, terminal.wait_for(b"a second]", begin))
            self.leave(terminal)
        log = (self.folder / "log").read_text()
        self.assertTrue(log.strip())
        self.assertNotIn("> ", log)


if __name__ == "__main__":
    unittest.main()
