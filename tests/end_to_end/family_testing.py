"""What tests of single families share: requests, and a test of whatever moves, shares or takes away what is cached.

Ids and logprobs are those of a run in which nothing is shared, moved or taken away.
"""

import json
import pathlib
import random

from programs import SOURCE, FolderTest, environment, run_jsonl

FAMILIES = SOURCE / "tests" / "fixtures" / "families"
VOCABULARY = 128
# 20 blocks hold one longest sequence and a little.
TIGHT = ("--max-blocks", "20", "--max-num-seqs", "6")
SWAP = ("--preemption-mode", "swap", "--swap-space", "4MiB")


def ids(count, seed):
    generator = random.Random(seed)
    return [generator.randrange(3, VOCABULARY) for _ in range(count)]


def requests():
    """Prompts of unequal length, half of them with a common beginning, some that repeat themselves, with answers that are longer."""
    made = []
    for index in range(14):
        prompt = (ids(40, 1) if index % 2 == 0 else ids(4, index) * 3) + ids(1 + 5 * index, 2 + index)
        made.append({"prompt_token_ids": prompt, "max_tokens": 60 + 5 * index, "logprobs": 2, "ignore_eos": True, "seed": index,
                     "temperature": 0.0 if index % 3 else 0.9})
    return made


def essence(answers):
    return [(answer["token_ids"], answer["logprobs"]) for answer in answers]


class MovesTest(FolderTest):
    """`names`: of the families; `further`: arguments for runs beside those of all."""

    names = ()
    further = ()

    def setUp(self):
        super().setUp()
        self.expected = {name: essence(run_jsonl(requests(), "--no-enable-prefix-caching", "--max-num-seqs", "1", model=str(FAMILIES / name)))
                         for name in self.names}

    def steps_of(self, name, *arguments, env=None):
        log = pathlib.Path(self.folder) / "steps.jsonl"
        log.unlink(missing_ok=True)
        answers = essence(run_jsonl(requests(), "--step-log", log, *arguments, model=str(FAMILIES / name), env=env))
        self.assertEqual(answers, self.expected[name], arguments)
        return [json.loads(line) for line in log.read_text().splitlines()]

    def check_moves(self):
        preempted = swapped = 0
        for name in self.names:
            for arguments in (TIGHT, (*TIGHT, "--no-enable-prefix-caching"), (*TIGHT, "--preemption-mode", "recompute"), (*TIGHT, *SWAP),
                              (*TIGHT, *SWAP, "--isolation", "process"),
                              (*TIGHT, "--scheduling-policy", "round-robin", "--defrag-threshold", "0.2"),
                              ("--max-blocks", "40", "--max-num-seqs", "6", "--block-size", "8", "--prefill-chunk-size", "5"), *self.further):
                with self.subTest(model=name, arguments=arguments):
                    steps = self.steps_of(name, *arguments)
                    preempted += steps[-1]["num_preemptions"]
                    swapped += sum(step["swapped_bytes"] for step in steps)
        print(f"{preempted} preemptions, {swapped} bytes swapped")
        self.assertGreater(preempted, 30)
        self.assertGreater(swapped, 0)

    def check_lost_worker(self):
        faults = environment(NVLLM_FAULTS="worker.step:60=abort")
        for name in self.names:
            with self.subTest(model=name):
                self.steps_of(name, "--isolation", "process", env=faults)

    def check_beams(self):
        search = [{"prompt_token_ids": ids(37, seed), "n": 4, "use_beam_search": True, "max_tokens": 40, "ignore_eos": True}
                  for seed in range(3)]
        for name in self.names:
            model = str(FAMILIES / name)
            expected = [answer["token_ids"] for answer in run_jsonl(search, "--no-enable-prefix-caching", model=model)]
            for arguments in ((), ("--block-size", "4"), ("--max-blocks", "20", "--max-num-seqs", "4")):
                with self.subTest(model=name, arguments=arguments):
                    answers = run_jsonl(search, *arguments, model=model)
                    self.assertEqual([answer["token_ids"] for answer in answers], expected)
