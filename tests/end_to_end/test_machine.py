"""What a machine can do, measured by its ranks, and what is predicted with that."""

import json
import os
import subprocess
import tempfile
import unittest

from family_testing import FAMILIES
from programs import BIN, environment
from test_ranks import MPI, has_mpi, tensor

SMALL = ("--weight-bytes", "8MiB", "--threads", "2")


def program(name, *arguments, code=0):
    done = subprocess.run([str(BIN / name), *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment())
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, arguments))}\n{done.stderr}")
    return done


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "this.json")

    def topology(self, *arguments):
        return json.loads(program("nvllm-inspect", "topology", "-m", FAMILIES / "mixtral", "--json", *arguments).stdout)

    def test_measured_and_predicted(self):
        ways = {"threads": (), "process": ("--isolation", "process")}
        if has_mpi():
            ways["mpi"] = MPI
        for way, arguments in ways.items():
            with self.subTest(way=way):
                table = program("nvllm-bench", "machine", *tensor(2), *SMALL, *arguments, "--output-json", self.file).stdout
                self.assertIn("2 ranks", table)
                with open(self.file, encoding="utf-8") as file:
                    machine = json.load(file)
                sizes = [sample["bytes"] for sample in machine["sums"]]
                self.assertEqual(sizes, sorted(set(sizes)))
                self.assertTrue(all(sample["us"] > 0 for sample in machine["sums"]))
                predicted = self.topology("--machine", self.file, "--devices", "2", "--sequences", "4", "--context", "64")
                self.assertEqual(predicted["machine"], "this")
                self.assertEqual({(split["tensor"], split["pipeline"], split["replicas"]) for split in predicted["splits"]},
                                 {(2, 1, 1), (1, 2, 1), (1, 1, 2)})
                for split in predicted["splits"]:
                    self.assertGreater(split["step_ms"], 0)

    def test_more_devices_than_there_are(self):
        for devices in (8, 64, 512):
            splits = self.topology("--devices", devices, "--sequences", "4096")["splits"]
            self.assertTrue(splits)
            for split in splits:
                self.assertEqual(split["tensor"] * split["pipeline"] * split["replicas"], devices)

    def test_experts_are_spread(self):
        splits = self.topology("--devices", "4", "--sequences", "64")["splits"]
        spread = {(split["tensor"], split["replicas"]): split for split in splits if split["expert_ranks"] == 4}
        self.assertEqual(set(spread), {(1, 4), (2, 2), (4, 1)})
        for key, split in spread.items():
            (cut,) = [other for other in splits if (other["tensor"], other["replicas"]) == key and other["pipeline"] == 1
                      and other["expert_ranks"] == 1]
            if key[0] < 4:
                self.assertLess(split["weight_bytes"], cut["weight_bytes"])
        table = program("nvllm-inspect", "topology", "-m", FAMILIES / "mixtral", "--devices", "4").stdout
        self.assertIn("of 4 ranks", table)
        self.assertIn("--data-parallel-size", table)

    def test_what_cannot_be_measured(self):
        for arguments in ((), tensor(2) + ("--pipeline-parallel-size", "2")):
            self.assertIn("--tensor-parallel-size", program("nvllm-bench", "machine", *arguments, *SMALL, code=64).stderr)
        self.assertIn("--device", program("nvllm-bench", "machine", *tensor(2), *SMALL, "--device", "cuda", code=64).stderr)
        self.assertIn("--devices", program("nvllm-inspect", "topology", *tensor(2), code=64).stderr)
        self.assertIn("known names", program("nvllm-inspect", "topology", "--machine", "h101", code=64).stderr)


if __name__ == "__main__":
    unittest.main()
