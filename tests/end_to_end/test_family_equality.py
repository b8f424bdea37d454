"""Every family, through the engine: ids and logprobs are the same whatever the batch, chunks, blocks, cache and threads."""

import json
import random
import unittest

from family_testing import context_of, essence
from programs import SOURCE, run_jsonl

FAMILIES = sorted(path.parent for path in (SOURCE / "tests" / "fixtures" / "families").glob("*/config.json"))

SETTINGS = {
    "one at a time": ("--max-num-seqs", "1"),
    "chunks of 1": ("--prefill-chunk-size", "1"),
    "chunks of 7": ("--prefill-chunk-size", "7"),
    "blocks of 1": ("--block-size", "1"),
    "blocks of 32": ("--block-size", "32"),
    "no prefix cache": ("--no-enable-prefix-caching",),
    "one thread": ("--threads", "1"),
}


def requests(vocab_size, context):
    """Prompts of unequal length, several with a common beginning, some longer than a sliding window."""
    generator = random.Random(3)
    shared = [generator.randrange(3, vocab_size) for _ in range(min(40, context // 4))]
    made = []
    for index in range(12):
        own = [generator.randrange(3, vocab_size) for _ in range(generator.randint(1, max(2, context // 3)))]
        made.append({"prompt_token_ids": (shared if index % 2 == 0 else []) + own, "max_tokens": 6 + index, "logprobs": 2,
                     "ignore_eos": True, "seed": index, "temperature": 0.0 if index % 3 else 0.9})
    return made


class FamilyEquality(unittest.TestCase):
    def test_every_family(self):
        self.assertGreaterEqual(len(FAMILIES), 10)
        for family in FAMILIES:
            config = json.loads((family / "config.json").read_text())
            context = min(context_of(config), 256)
            made = requests(config["vocab_size"], context)
            for dtype in ("float32", "bfloat16"):
                expected = essence(run_jsonl(made, "--dtype", dtype, model=str(family)))
                for name, arguments in SETTINGS.items():
                    with self.subTest(family=family.name, dtype=dtype, setting=name):
                        answers = run_jsonl(made, "--dtype", dtype, *arguments, model=str(family))
                        self.assertEqual(essence(answers), expected)


if __name__ == "__main__":
    unittest.main()
