"""Limits that the system sets: threads that cannot be started end each program in a sentence."""

import os
import shutil
import subprocess
import unittest

from programs import BIN, DEMO, TIMEOUT_S, FolderTest, environment

# The user nobody has no other processes here, so that a limit counts those of the test alone.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def limited(num_tasks, *argv):
    """Runs a program as another user, who may have so many tasks: the shell is one until it becomes the program."""
    script = 'ulimit -c 0; ulimit -u "$0" && exec "$@"'
    # LeakSanitizer, where it is built in, needs a task of its own at the end.
    env = environment(ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0")
    return subprocess.run([*NOBODY, "bash", "-c", script, str(num_tasks), str(BIN / argv[0]), *argv[1:]], cwd="/",
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, env=env)


def why_not():
    """Why no program can be limited here; empty where it can."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return "needs root and setpriv: a limit of the user's own tasks counts what else that user runs"
    done = limited(500, "nvllm-run", "--version")
    return "" if done.returncode == 0 else f"another user cannot run the programs: {done.stderr.strip()}"


@unittest.skipIf(why_not(), why_not() or "runs")
class Threads(FolderTest):
    PROGRAMS = {
        "run": ("nvllm-run", "-m", DEMO, "-p", "Once", "-n", "2", "-t", "4"),
        "run with a worker": ("nvllm-run", "-m", DEMO, "-p", "Once", "-n", "2", "-t", "4", "--isolation", "process",
                              "--inspect-socket", "/tmp/nvllm-limits-test.sock"),
        "bench": ("nvllm-bench", "latency", "-m", DEMO, "--num-iters", "1", "--num-iters-warmup", "0", "--output-len", "2",
                  "-t", "4"),
        "quantize": ("nvllm-quantize", "-m", DEMO, "--scheme", "W8A16", "--dry-run", "-t", "4"),
        "serve": ("nvllm-serve", "-m", DEMO, "--port", "0", "-t", "4"),
    }

    def check(self, name, num_tasks):
        done = limited(num_tasks, *self.PROGRAMS[name])
        self.assertIn(done.returncode, (0, 69, 77), f"{name} with {num_tasks} tasks: {done.stderr}")
        self.assertNotIn("terminate", done.stderr)
        if done.returncode == 0:
            return True
        # An error of a worker that could not be made at all names its limits too.
        self.assertIn(f"ulimit -u {num_tasks}", done.stderr, name)
        self.assertTrue("--threads" in done.stderr or "cannot be started" in done.stderr, done.stderr)
        return False

    def test_every_place_that_starts_one(self):
        """One more task each time: the next thread is the one that cannot be started, until all can."""
        for name in ("run", "run with a worker", "bench", "quantize"):
            with self.subTest(name):
                ran = [self.check(name, num_tasks) for num_tasks in range(1, 11)]
                self.assertFalse(ran[0])
                self.assertTrue(ran[-1], f"{name} needs more than 10 tasks")

    def test_server(self):
        for num_tasks in range(1, 9):  # with more it may run, and does not end by itself
            self.assertFalse(self.check("serve", num_tasks))


if __name__ == "__main__":
    unittest.main()
