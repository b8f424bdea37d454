"""nvllm-run in a shell pipeline: streaming input, early-closed output, one program feeding another."""

import json
import os
import pty
import select
import signal
import subprocess
import tempfile
import time
import unittest

from programs import DEMO, RUN, TIMEOUT_S, environment, run, run_jsonl


class Pipelines(unittest.TestCase):
    def test_answer_before_next_line(self):
        with subprocess.Popen([RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "-n", "4"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=environment()) as process:
            for index in range(3):
                process.stdin.write(json.dumps({"prompt": f"Line {index}"}) + "\n")
                process.stdin.flush()
                # The next line is not written before this answer is here; stdin stays open.
                ready, _, _ = select.select([process.stdout], [], [], TIMEOUT_S)
                self.assertTrue(ready)
                self.assertEqual(json.loads(process.stdout.readline())["index"], index)
            process.stdin.close()
            self.assertEqual(process.wait(TIMEOUT_S), 0)

    def test_closed_output_ends_quietly(self):
        done = subprocess.run(["bash", "-c", f'set -o pipefail; "{RUN}" -m "{DEMO}" -p "Once" -p "Two" -p "Three" -n 200 --ignore-eos | head -1'],
                              capture_output=True, text=True, timeout=TIMEOUT_S, env=environment())
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertNotIn("error", done.stderr)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([RUN, "-m", DEMO, "-p", "Once", "-n", "3"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=TIMEOUT_S, env=environment())
        self.assertEqual(done.returncode, 74)
        self.assertIn("standard output", done.stderr)

    def test_one_feeds_the_other(self):
        done = subprocess.run(["bash", "-c", f'set -o pipefail; "{RUN}" -m "{DEMO}" -p "Once upon a time" -n 20 --temperature 0 | "{RUN}" -m "{DEMO}" -n 10 --temperature 0'],
                              capture_output=True, text=True, timeout=TIMEOUT_S, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())

    def test_standard_input_is_one_prompt(self):
        text = "Once upon a time\nthere was a dog."
        piped = json.loads(run("-m", DEMO, "-n", "5", "--output-format", "json", stdin=text).stdout)
        self.assertEqual(piped["prompt"], text)

    def prompt_ids(self, *arguments, stdin=""):
        return json.loads(run("-m", DEMO, "-n", "1", "--output-format", "json", *arguments, stdin=stdin).stdout)["prompt_token_ids"]

    def test_what_a_text_file_has_around_its_text_is_no_part_of_it(self):
        plain = self.prompt_ids("-p", "Once upon a time")
        for text in (b"Once upon a time\n", b"Once upon a time\r\n", b"\xef\xbb\xbfOnce upon a time\n", b"Once upon a time"):
            with tempfile.NamedTemporaryFile() as file:
                file.write(text)
                file.flush()
                self.assertEqual(self.prompt_ids("-f", file.name), plain, text)
            self.assertEqual(self.prompt_ids(stdin=text.decode()), plain, text)
        self.assertNotEqual(self.prompt_ids(stdin="Once upon a time\n\n"), plain)

    def test_a_pipe_beside_a_prompt_is_not_dropped_without_a_word(self):
        arguments = ("-m", DEMO, "-p", "Once", "-n", "2")
        self.assertIn("standard input is not read beside a prompt", run(*arguments, stdin="The library is open.").stderr)
        self.assertNotIn("standard input", run(*arguments, stdin="").stderr)
        self.assertNotIn("standard input", run(*arguments, "-f", "-", stdin="The library is open.").stderr)
        with open(__file__) as file:  # a loop's own input, say
            done = subprocess.run([RUN, *arguments], stdin=file, capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env=environment())
        self.assertNotIn("standard input", done.stderr)

    def test_one_question_by_the_template(self):
        ask = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}]}
        expected = run_jsonl([{**ask, "temperature": 0, "max_tokens": 12}])[0]
        for arguments in (("--chat", "--system-prompt", "Be brief."), ("-cnv", "-sys", "Be brief.")):
            answer = json.loads(run("-m", DEMO, "-p", "Who are you?", *arguments, "-n", "12", "--temperature", "0",
                                    "--output-format", "json").stdout)
            self.assertEqual(answer["prompt_token_ids"], expected["prompt_token_ids"])
            self.assertEqual(answer["text"], expected["text"])
        for arguments in (("--chat", "--prompt-ids", "1"), ("--chat", "--input-format", "jsonl")):
            self.assertEqual(run("-m", DEMO, *arguments, check=False).returncode, 64)

    def test_an_empty_answer_hints_at_the_template(self):
        arguments = ("-m", DEMO, "-p", "Who are you?", "--temperature", "0")
        done = run(*arguments)
        self.assertEqual(done.stdout.strip(), "")
        self.assertIn("--chat asks with it", done.stderr)
        self.assertNotIn("--chat", run(*arguments, "--no-chat").stderr)
        self.assertNotIn("--chat", run("-m", DEMO, "-p", "Once upon a time", "-n", "5", "--temperature", "0").stderr)

    def test_text_alone_on_standard_output(self):
        done = run("-m", DEMO, "-p", "Once upon a time", "-n", "8", "--temperature", "0")
        answer = json.loads(run("-m", DEMO, "-p", "Once upon a time", "-n", "8", "--temperature", "0",
                                "--output-format", "json").stdout)
        self.assertEqual(done.stdout, answer["text"].rstrip("\n") + "\n" if not answer["text"].endswith("\n") else answer["text"])

    def test_order_of_answers(self):
        requests = [{"prompt": "Once", "max_tokens": 60 - 3 * index, "ignore_eos": True} for index in range(20)]
        answers = run_jsonl(requests, "--max-num-seqs", "7")
        self.assertEqual([answer["index"] for answer in answers], list(range(20)))
        self.assertEqual([answer["usage"]["completion_tokens"] for answer in answers],
                         [60 - 3 * index for index in range(20)])

    def test_interrupt(self):
        with subprocess.Popen([RUN, "-m", DEMO, "--input-format", "jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment()) as process:
            process.stdin.write(b'{"prompt": "Once", "max_tokens": 1}\n')
            process.stdin.flush()
            self.assertTrue(process.stdout.readline())  # it handles signals by now
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(TIMEOUT_S), 130)


class Chat(unittest.TestCase):
    def test_conversation_on_a_terminal(self):
        parent, child = pty.openpty()
        process = subprocess.Popen([RUN, "-m", DEMO, "--temperature", "0", "-n", "24"], stdin=child, stdout=child, stderr=child,
                                   env=environment(TERM="dumb", NO_COLOR="1"), close_fds=True)
        os.close(child)
        seen = b""
        deadline = time.monotonic() + TIMEOUT_S

        def read_until(done):
            nonlocal seen
            while not done():
                self.assertLess(time.monotonic(), deadline, seen)
                if select.select([parent], [], [], 0.2)[0]:
                    seen += os.read(parent, 4096)

        def prompted_after(text):
            # The prompt that follows the last place where `text` stands: what it asked for is done.
            return lambda: text in seen and b"> " in seen[seen.rindex(text) + len(text):]

        read_until(lambda: b"> " in seen)
        os.write(parent, b"/help\n")
        read_until(prompted_after(b"Ctrl-C stops an answer."))
        os.write(parent, b"Who are you?\n")
        read_until(prompted_after(b"Who are you?"))
        answer = seen[seen.rindex(b"Who are you?") + len(b"Who are you?"):seen.rindex(b"> ")]
        self.assertGreater(len(answer.strip()), 10, seen)
        # The editor takes over the terminal just after it shows the prompt; a Ctrl-D that comes between ends up in the line, so
        # the line is emptied (Ctrl-U) first. It gives the terminal back once all output is taken: go on reading.
        while process.poll() is None:
            self.assertLess(time.monotonic(), deadline, seen)
            os.write(parent, b"\x15\x04")
            try:
                if select.select([parent], [], [], 0.2)[0]:
                    seen += os.read(parent, 4096)
            except OSError:  # the other end is closed
                process.wait(TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        os.close(parent)


if __name__ == "__main__":
    unittest.main()
