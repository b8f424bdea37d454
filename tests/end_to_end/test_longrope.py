"""longrope: requests that stay within the original context get transformers' ids for it, beside others that leave it.

The fixture and its ids are made by scripts/fixtures/make_longrope.py.
"""

import json
import unittest

from programs import BIN, MODULES, SOURCE, environment, run_jsonl

MODEL = SOURCE / "tests" / "fixtures" / "longrope"
ROWS = json.loads((MODEL / "expected.json").read_text())

# What must change no id; with little room some give way.
SETTINGS = {
    "in one batch": (),
    "one at a time, which find blocks of the ones before": ("--max-num-seqs", "1", "--block-size", "4"),
    "without a prefix cache": ("--no-enable-prefix-caching",),
    "chunks of 7": ("--prefill-chunk-size", "7"),
    "a worker of its own": ("--isolation", "process"),
    "little room, computed again": ("--max-blocks", "30", "--block-size", "4", "--preemption-mode", "recompute", "--max-model-len", "96"),
    "little room, swapped": ("--max-blocks", "30", "--block-size", "4", "--preemption-mode", "swap", "--swap-space", "16MiB",
                             "--max-model-len", "96"),
}


def requests(rows):
    return [{"prompt_token_ids": row["prompt_token_ids"], "max_tokens": row["max_tokens"], "temperature": 0.0, "ignore_eos": True}
            for row in rows]


class LongRope(unittest.TestCase):
    def answers(self, rows, *arguments, env=None):
        return [answer["token_ids"] for answer in run_jsonl(requests(rows), "--dtype", "float32", *arguments, model=str(MODEL), env=env)]

    def test_ids_are_those_of_transformers(self):
        self.assertEqual({row["kind"] for row in ROWS}, {"within", "leaves", "beyond"})
        for rows in (ROWS, ROWS[::-1], ROWS + ROWS):
            for name, arguments in SETTINGS.items():
                with self.subTest(setting=name, rows=len(rows)):
                    self.assertEqual(self.answers(rows, *arguments), [row["expected_ids"] for row in rows])

    def test_a_shorter_maximum_length_keeps_all_within(self):
        within = [row for row in ROWS if row["kind"] == "within" and len(row["prompt_token_ids"]) + row["max_tokens"] <= 48]
        self.assertTrue(within)
        self.assertEqual(self.answers(within, "--max-model-len", "48"), [row["expected_ids"] for row in within])

    @unittest.skipUnless((MODULES / "libnanovllm_cuda_emulated.so").exists(), "built without the CUDA kernels")
    def test_devices_choose_alike(self):
        env = environment(NVLLM_BACKEND_PATH=str(MODULES))
        rows = [row for row in ROWS if row["max_tokens"] <= 30]
        expected = [row["expected_ids"] for row in rows]
        for device in ("cuda_emulated", "example"):
            for arguments in ((), ("--enforce-eager",)):
                with self.subTest(device=device, arguments=arguments):
                    self.assertEqual(self.answers(rows, "--device", device, *arguments, env=env), expected)


if __name__ == "__main__":
    unittest.main()
