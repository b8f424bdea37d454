"""Runs the built programs as a user would; shared by the end-to-end tests."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("NVLLM_BIN", SOURCE / "build" / "release" / "bin"))
RUN = str(BIN / "nvllm-run")
# Modules of devices that tests have: the example, and emulated kernels where those were built.
MODULES = pathlib.Path(os.environ.get("NVLLM_TEST_MODULES", BIN.parent / "test_modules"))
DEMO = os.environ.get("NVLLM_TEST_MODEL", str(SOURCE / "models" / "demo"))
SHARED = pathlib.Path(os.environ.get("NVLLM_SHARED_DATA", SOURCE.parent / "shared" / "data"))

# Sanitizer builds are several times slower; no test asserts a time, only that things end.
TIMEOUT_S = 300


# Whole test files run once more with options for every program: NVLLM_TEST_WITH_TENSOR_PARALLEL_SIZE=2 is --tensor-parallel-size 2.
OPTION = "NVLLM_TEST_WITH_"


def environment(**changes):
    """The environment without settings that a developer's shell may carry."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NVLLM_") or k == "NVLLM_ISA"}
    clean.update({"NVLLM_" + k.removeprefix(OPTION): v for k, v in os.environ.items() if k.startswith(OPTION)})
    clean.update(changes)
    return clean


def run(*arguments, stdin="", check=True, env=None):
    """nvllm-run with these arguments; stdin is text. Returns the completed process."""
    done = subprocess.run([RUN, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=TIMEOUT_S, env=env or environment())
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, arguments))}\n{done.stderr}")
    return done


def run_jsonl(requests, *arguments, model=DEMO, env=None):
    """Answers (one object a request) of a batch in one process."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = run("-m", model, "--input-format", "jsonl", "--output-format", "jsonl", *arguments, stdin=lines, env=env)
    return [json.loads(line) for line in done.stdout.splitlines()]


def wait_until(is_true, timeout_s=TIMEOUT_S, what="what was waited for"):
    """Returns the first truthy value of is_true(); fails when there is none in time."""
    end = time.monotonic() + timeout_s
    while True:
        value = is_true()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {timeout_s} s")
        time.sleep(0.01)


def children(process_id):
    """Ids of the living children of a process."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process_id and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


class FolderTest(unittest.TestCase):
    """Has a folder of its own, which goes with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


def needs_shared(name):
    """Skips, saying so, when the shared test data is not beside the checkout."""
    return unittest.skipUnless((SHARED / name).exists(), f"needs shared test data '{name}', not at {SHARED}")
