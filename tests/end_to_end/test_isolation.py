"""The worker in a process of its own: what is generated does not depend on it, nor on what becomes of it."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from programs import DEMO, RUN, TIMEOUT_S, children, environment, run_jsonl, wait_until

# Each step takes a while, so that there is time to disturb it.
SLOW = environment(NVLLM_FAULTS="worker.step:*=sleep=4")
REQUESTS = [{"prompt": f"Once upon a time there was a child called {name}", "max_tokens": 120 + 30 * index, "ignore_eos": True,
             "seed": index, "temperature": 0.7 * (index % 2)}
            for index, name in enumerate(("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn"))]


def is_alive(process_id):
    try:
        return pathlib.Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Running:
    """nvllm-run over REQUESTS, in a session of its own so that signals to its group reach nobody else."""

    def __init__(self, *arguments, env=None):
        self.folder = tempfile.TemporaryDirectory()
        self.steps = pathlib.Path(self.folder.name) / "steps.jsonl"
        self.process = subprocess.Popen(
            [RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "--isolation", "process", "--step-log",
             str(self.steps), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env or SLOW,
            start_new_session=True)
        self.process.stdin.write("".join(json.dumps(request) + "\n" for request in REQUESTS))
        self.process.stdin.close()
        self.process.stdin = None
        self.bytes_seen = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def worker(self):
        return wait_until(lambda: (children(self.process.pid) or [None])[0])

    def busy_worker(self):
        """The worker, when more steps have been done than the last time; the log is written a few dozen at a time."""
        wait_until(lambda: self.steps.exists() and self.steps.stat().st_size > self.bytes_seen)
        self.bytes_seen = self.steps.stat().st_size
        return self.worker()

    def finish(self):
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return [json.loads(line) for line in out.splitlines()], err


def essence(answers):
    return [(answer["token_ids"], answer["text"], answer["finish_reason"]) for answer in answers]


class Isolation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = essence(run_jsonl(REQUESTS))

    def test_same_text(self):
        self.assertEqual(essence(run_jsonl(REQUESTS, "--isolation", "process")), self.expected)

    def test_killed_workers_change_nothing(self):
        with Running() as running:
            for _ in range(5):
                os.kill(running.busy_worker(), signal.SIGKILL)
            answers, err = running.finish()
        self.assertEqual(running.process.returncode, 0)
        self.assertEqual(essence(answers), self.expected)
        # One may be killed before it was ready.
        lost = err.count("the worker is gone") + err.count("the worker did not start")
        self.assertEqual(lost, 5, err)
        self.assertIn("killed by signal 9", err)

    def test_worker_has_its_socket_and_stderr_alone(self):
        with Running() as running:
            folder = pathlib.Path(f"/proc/{running.busy_worker()}/fd")
            open_files = {entry.name: os.readlink(entry) for entry in folder.iterdir()}
        self.assertEqual(open_files.pop("0"), "/dev/null")
        self.assertEqual(open_files.pop("1"), "/dev/null")
        self.assertIn("pipe:", open_files.pop("2"))
        self.assertIn("socket:", open_files.pop("3"))
        self.assertEqual(open_files, {})

    def test_no_orphan_when_the_parent_is_killed(self):
        for step in ("sleep=4", "sleep=60000"):  # at work, and stuck in a step
            for _ in range(3):
                with Running(env=environment(NVLLM_FAULTS=f"worker.step:8+={step}")) as running:
                    worker = running.worker()
                    time.sleep(0.2)
                    running.process.kill()
                    running.process.wait()
                    wait_until(lambda: not is_alive(worker), 5)

    def test_interrupt_ends_both_and_blames_nobody(self):
        with Running() as running:
            worker = running.busy_worker()
            os.killpg(running.process.pid, signal.SIGINT)
            _, err = running.finish()
        self.assertEqual(running.process.returncode, 130)
        self.assertNotIn("worker", err)
        self.assertFalse(is_alive(worker))

    def test_stopped_and_continued(self):
        with Running("--watchdog-timeout", "2") as running:
            worker = running.busy_worker()
            os.kill(running.process.pid, signal.SIGSTOP)
            time.sleep(4)
            os.kill(running.process.pid, signal.SIGCONT)
            self.assertEqual(running.worker(), worker)
            answers, err = running.finish()
        self.assertEqual(essence(answers), self.expected)
        self.assertNotIn("watchdog", err)
        self.assertNotIn("gone", err)

    def test_hanging_worker_is_replaced(self):
        # Under a sanitizer the step that computes everybody again takes longer than half a second.
        timeout_s = "5" if os.environ.get("NVLLM_SANITIZED") else "0.5"
        with Running("--watchdog-timeout", timeout_s, env=environment(NVLLM_FAULTS="worker.step:200=sleep=60000")) as running:
            answers, err = running.finish()
        self.assertEqual(running.process.returncode, 0)
        self.assertEqual(essence(answers), self.expected)
        self.assertIn("--watchdog-timeout", err)

    def test_worker_by_hand(self):
        program = pathlib.Path(RUN).parent.parent / "libexec" / "nanovllm" / "nvllm-worker"
        done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 64)
        self.assertIn("--isolation process", done.stderr)


if __name__ == "__main__":
    unittest.main()
