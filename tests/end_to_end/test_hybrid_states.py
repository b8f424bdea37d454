"""Models with linear attention: a state for each sequence beside the blocks, kept at some places for others to begin from.

Ids and logprobs are those of a run in which nothing is shared, moved or taken away.
"""

import json
import pathlib
import random
import subprocess
import unittest

from programs import BIN, SOURCE, FolderTest, environment, run, run_jsonl

FAMILIES = SOURCE / "tests" / "fixtures" / "families"
HYBRIDS = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
VOCABULARY = 128
BLOCK = 16


def ids(count, seed):
    generator = random.Random(seed)
    return [generator.randrange(3, VOCABULARY) for _ in range(count)]


def requests():
    """Prompts of unequal length, half of them with a common beginning, with answers that are longer."""
    made = []
    for index in range(14):
        prompt = (ids(40, 1) if index % 2 == 0 else []) + ids(1 + 5 * index, 2 + index)
        made.append({"prompt_token_ids": prompt, "max_tokens": 60 + 5 * index, "logprobs": 2, "ignore_eos": True, "seed": index,
                     "temperature": 0.0 if index % 3 else 0.9})
    return made


def essence(answers):
    return [(answer["token_ids"], answer["logprobs"]) for answer in answers]


def answer_of(model, prompt, count, *arguments):
    return run_jsonl([{"prompt_token_ids": prompt, "max_tokens": count, "ignore_eos": True, "temperature": 0.0}], *arguments,
                     model=str(model))[0]["token_ids"]


class Answers(FolderTest):
    def steps_of(self, model, *arguments, env=None):
        log = pathlib.Path(self.folder) / "steps.jsonl"
        log.unlink(missing_ok=True)
        answers = essence(run_jsonl(requests(), "--step-log", log, *arguments, model=str(model), env=env))
        self.assertEqual(answers, self.expected[model.name], arguments)
        return [json.loads(line) for line in log.read_text().splitlines()]

    def setUp(self):
        super().setUp()
        self.expected = {}
        for name in HYBRIDS:
            answers = run_jsonl(requests(), "--no-enable-prefix-caching", "--max-num-seqs", "1", model=str(FAMILIES / name))
            self.expected[name] = essence(answers)

    def test_nothing_that_moves_states_changes_an_answer(self):
        # 20 blocks hold one longest sequence and a little; 120 kB leave a few slots.
        tight = ("--max-blocks", "20", "--max-num-seqs", "6")
        few_slots = ("--kv-cache-memory-bytes", "120000", "--max-num-seqs", "6")
        preempted = swapped = 0
        for name in HYBRIDS:
            for arguments in (tight, few_slots, (*tight, "--no-enable-prefix-caching"),
                              (*tight, "--preemption-mode", "recompute"),
                              (*tight, "--preemption-mode", "swap", "--swap-space", "4MiB"),
                              (*few_slots, "--preemption-mode", "swap", "--swap-space", "4MiB", "--isolation", "process"),
                              (*tight, "--scheduling-policy", "round-robin", "--defrag-threshold", "0.2"),
                              ("--max-blocks", "40", "--max-num-seqs", "6", "--block-size", "8", "--prefill-chunk-size", "5")):
                with self.subTest(model=name, arguments=arguments):
                    steps = self.steps_of(FAMILIES / name, *arguments)
                    preempted += steps[-1]["num_preemptions"]
                    swapped += sum(step["swapped_bytes"] for step in steps)
        print(f"{preempted} preemptions, {swapped} bytes swapped")
        self.assertGreater(preempted, 30)
        self.assertGreater(swapped, 0)

    def test_a_lost_worker_computes_states_again(self):
        faults = environment(NVLLM_FAULTS="worker.step:60=abort")
        for name in HYBRIDS:
            with self.subTest(model=name):
                self.steps_of(FAMILIES / name, "--isolation", "process", env=faults)

    def test_beams_fork_states(self):
        search = [{"prompt_token_ids": ids(37, seed), "n": 4, "use_beam_search": True, "max_tokens": 40, "ignore_eos": True}
                  for seed in range(3)]
        for name in HYBRIDS:
            model = str(FAMILIES / name)
            expected = [answer["token_ids"] for answer in run_jsonl(search, "--no-enable-prefix-caching", model=model)]
            for arguments in ((), ("--block-size", "4"), ("--max-blocks", "20", "--max-num-seqs", "4")):
                with self.subTest(model=name, arguments=arguments):
                    answers = run_jsonl(search, *arguments, model=model)
                    self.assertEqual([answer["token_ids"] for answer in answers], expected)


class Reuse(unittest.TestCase):
    def cached(self, model, prompts, *arguments):
        """Tokens that each of the prompts, one after another, found in the cache; their answers are those without one."""
        made = [{"prompt_token_ids": prompt, "max_tokens": 4, "ignore_eos": True, "temperature": 0.0} for prompt in prompts]
        one_by_one = ("--max-num-seqs", "1", "--block-size", str(BLOCK), *arguments)
        answers = run_jsonl(made, *one_by_one, model=str(model))
        fresh = run_jsonl(made, "--no-enable-prefix-caching", model=str(model))
        self.assertEqual([answer["token_ids"] for answer in answers], [answer["token_ids"] for answer in fresh])
        return [answer["usage"]["cached_tokens"] for answer in answers]

    def test_the_same_prompt_begins_at_its_last_whole_block(self):
        prompt = ids(100, 5)
        for name in HYBRIDS:
            with self.subTest(model=name):
                self.assertEqual(self.cached(FAMILIES / name, [prompt, prompt, prompt[:96], prompt + ids(20, 6)]), [0, 96, 0, 96])

    def test_a_conversation_goes_on_where_a_state_was_kept(self):
        model = FAMILIES / "qwen3_5"
        prompt = ids(40, 7)
        answer = answer_of(model, prompt, 120)
        made = [{"prompt_token_ids": prompt, "max_tokens": 120, "ignore_eos": True, "temperature": 0.0},
                {"prompt_token_ids": prompt + answer + ids(9, 8), "max_tokens": 5, "ignore_eos": True, "temperature": 0.0}]
        answers = run_jsonl(made, "--max-num-seqs", "1", "--block-size", str(BLOCK), model=str(model))
        self.assertEqual([each["usage"]["cached_tokens"] for each in answers], [0, 128])
        fresh = run_jsonl(made[1:], "--no-enable-prefix-caching", model=str(model))
        self.assertEqual(answers[1]["token_ids"], fresh[0]["token_ids"])

    def test_chunks_end_where_states_are_kept(self):
        prompt = ids(150, 9)
        for chunk in ("7", "40", "100"):
            with self.subTest(chunk=chunk):
                found = self.cached(FAMILIES / "qwen3_next", [prompt, prompt], "--prefill-chunk-size", chunk)
                self.assertEqual(found, [0, 144])


class Limits(unittest.TestCase):
    def test_drafts_are_refused_by_name(self):
        done = run("-m", FAMILIES / "qwen3_next", "--prompt-ids", "5,6,7", "-n", "4", "--speculative-config",
                   json.dumps({"method": "ngram", "num_speculative_tokens": 3}), check=False)
        self.assertEqual(done.returncode, 64)
        self.assertIn("Qwen3NextForCausalLM has layers with linear attention", done.stderr)

    def test_the_plan_lists_slots(self):
        done = subprocess.run([BIN / "nvllm-inspect", "plan", "-m", FAMILIES / "qwen3_5"], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"states +[\d,]+ a slot +[\d,]+ slots")


if __name__ == "__main__":
    unittest.main()
