"""What the tests of nvllm-bench share: running it, reading its results, and what its errors look like."""

import json
import subprocess

from programs import BIN, DEMO, TIMEOUT_S, FolderTest, environment

BENCH = str(BIN / "nvllm-bench")
USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE, CANNOT_CREATE = 64, 65, 66, 69, 73


def bench(*arguments, check=True):
    done = subprocess.run([BENCH, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, env=environment(NVLLM_MODEL=DEMO))
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, arguments))}\n{done.stderr}")
    return done


class BenchTest(FolderTest):
    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def result(self, *arguments):
        """The result object of a run that writes one, and its table."""
        path = self.folder / "result.json"
        done = bench(*arguments, "--output-json", path)
        return json.loads(path.read_text()), done.stdout

    def fails(self, code, *arguments, says=()):
        done = bench(*arguments, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertIn("nvllm-bench: error: ", done.stderr)
        self.assertEqual(done.stdout, "")
        for text in says:
            self.assertIn(str(text), done.stderr)

    def check_environment(self, result):
        for key in ("cpu", "cores", "isa", "threads", "memory_bytes", "load_average", "version", "model", "command",
                    "date"):
            self.assertIn(key, result["environment"])
