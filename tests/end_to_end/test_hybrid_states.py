"""Models with linear attention: a state for each sequence beside the blocks, kept at some places for others to begin from."""

import json
import pathlib
import subprocess
import sys
import unittest

from family_testing import FAMILIES, SWAP, TIGHT, MovesTest, essence, ids, requests
from programs import BIN, SOURCE, FolderTest, environment, run, run_jsonl

HYBRIDS = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "granite4", "falcon_h1", "nemotron_h", "lfm2", "kimi_linear", "mamba2")
BLOCK = 16
# A few slots.
FEW_SLOTS = ("--kv-cache-memory-bytes", "120000", "--max-num-seqs", "6")


def answer_of(model, prompt, count, *arguments):
    return run_jsonl([{"prompt_token_ids": prompt, "max_tokens": count, "ignore_eos": True, "temperature": 0.0}], *arguments,
                     model=str(model))[0]["token_ids"]


class Answers(MovesTest):
    names = HYBRIDS
    further = (FEW_SLOTS, (*FEW_SLOTS, *SWAP, "--isolation", "process"))

    def test_nothing_that_moves_states_changes_an_answer(self):
        self.check_moves()

    def test_a_lost_worker_computes_states_again(self):
        self.check_lost_worker()

    def test_beams_fork_states(self):
        self.check_beams()


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
        # The newest state of the answer, at the last end of a block that it filled.
        self.assertEqual([each["usage"]["cached_tokens"] for each in answers], [0, 144])
        fresh = run_jsonl(made[1:], "--no-enable-prefix-caching", model=str(model))
        self.assertEqual(answers[1]["token_ids"], fresh[0]["token_ids"])

    def test_a_miss_says_what_was_missing(self):
        prompt = ids(100, 5)
        made = [{"prompt_token_ids": each, "max_tokens": 4, "ignore_eos": True, "temperature": 0.0}
                for each in (prompt, prompt[:70] + ids(9, 6))]
        answers = run_jsonl(made, "--max-num-seqs", "1", "--block-size", str(BLOCK), model=str(FAMILIES / "qwen3_5"))
        usages = [each["usage"] for each in answers]
        self.assertNotIn("tokens_without_state", usages[0])
        self.assertEqual((usages[1]["cached_tokens"], usages[1]["tokens_without_state"]), (0, 64))

    def test_chunks_end_where_states_are_kept(self):
        prompt = ids(150, 9)
        for chunk in ("7", "40", "100"):
            with self.subTest(chunk=chunk):
                found = self.cached(FAMILIES / "qwen3_next", [prompt, prompt], "--prefill-chunk-size", chunk)
                self.assertEqual(found, [0, 144])


class Messages(FolderTest):
    def test_conversations_share_their_first_message(self):
        """A state is kept behind the system prompt, where no interval would have it."""
        model = pathlib.Path(self.folder) / "model"
        subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "measure" / "make_checkpoint.py", model, "tiny-qwen3.5"], check=True)
        system = {"role": "system", "content": "You may call tools. " + "The dog went home. " * 12}
        chats = [{"messages": [system, {"role": "user", "content": f"{word} " * 40}], "max_tokens": 3, "ignore_eos": True, "temperature": 0.0}
                 for word in ("house", "river")]
        found = {}
        for borders in (0, 2):
            with self.subTest(borders=borders):
                settings = ("--max-num-seqs", "1", "--block-size", "4", "--state-checkpoint-interval", "512", "--state-checkpoint-borders", borders)
                answers = run_jsonl(chats, *settings, model=str(model))
                fresh = run_jsonl(chats, "--no-enable-prefix-caching", model=str(model))
                self.assertEqual([answer["token_ids"] for answer in answers], [answer["token_ids"] for answer in fresh])
                found[borders] = answers[1]["usage"]
        self.assertEqual(found[0]["cached_tokens"], 0)
        self.assertGreater(found[2]["cached_tokens"], 40)
        # What both begin with, but for the tokens of one block.
        self.assertLessEqual(found[0]["tokens_without_state"] - found[2]["cached_tokens"], 8)


class Replay(unittest.TestCase):
    def test_a_conversation_reuses_nearly_what_full_attention_does(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "measure" / "agent_replay.py", "--bin", BIN, "--turns", "8",
                               "--agents", "2"], capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertGreater(found["twin"]["share"], 0.7)
        self.assertGreater(found["hybrid"]["cached_tokens"], 1000)


def drafts(count, method="ngram", **others):
    """As many as are proposed, after a single equal token: many are wrong."""
    return "--speculative-config", json.dumps({"method": method, "num_speculative_tokens": count, "prompt_lookup_min": 1, "adaptive": False} | others)


def full_layer(name):
    """The first with full attention."""
    return json.loads((FAMILIES / name / "config.json").read_text())["layer_types"].index("full_attention")


def sequence_steps(steps):
    return sum(step["num_sequences"] for step in steps)


class Drafts(MovesTest):
    """States go back to where the accepted drafts end."""
    names = HYBRIDS

    def drafted(self, name, *arguments, **others):
        steps = self.steps_of(name, *arguments, **others)
        self.assertGreater(sum(step["num_draft_tokens"] for step in steps), 0)
        return steps

    def test_drafts_change_no_answer(self):
        proposed = spared = preempted = 0
        for name in self.names:
            plain = sequence_steps(self.steps_of(name))
            for arguments in (drafts(1), drafts(4), (*drafts(8), "--max-num-seqs", "1"), (*drafts(3), "--block-size", "4", "--prefill-chunk-size", "7"),
                              (*drafts(3, "suffix"), "--no-enable-prefix-caching"), (*drafts(4), *TIGHT, "--preemption-mode", "recompute"),
                              (*drafts(4), *TIGHT, *SWAP, "--isolation", "process"), (*drafts(4), *FEW_SLOTS, "--defrag-threshold", "0.2")):
                with self.subTest(model=name, arguments=arguments):
                    steps = self.drafted(name, *arguments)
                    proposed += sum(step["num_draft_tokens"] for step in steps)
                    spared += plain - sequence_steps(steps)
                    preempted += steps[-1]["num_preemptions"]
        print(f"{proposed} drafts, {spared} steps of a sequence fewer, {preempted} preemptions")
        self.assertGreater(spared, 100)
        self.assertGreater(proposed - spared, 1000)
        self.assertGreater(preempted, 10)

    def test_a_lost_worker_leaves_no_draft_in_a_state(self):
        faults = environment(NVLLM_FAULTS="worker.step:60=abort")
        for name in self.names:
            with self.subTest(model=name):
                self.drafted(name, *drafts(4), "--isolation", "process", env=faults)

    def test_next_token_layers(self):
        for name in ("qwen3_5", "qwen3_5_moe"):
            self.check_next_token_layer(name, full_layer(name), "qwen")

    def test_a_few_sequences_have_drafts_in_a_step(self):
        made = [request | {"max_tokens": 24} for request in requests() * 3]
        model = str(FAMILIES / "qwen3_5")
        expected = essence(run_jsonl(made, "--max-num-seqs", "1", model=model))
        self.assertEqual(essence(run_jsonl(made, *drafts(2), "--max-num-seqs", "40", model=model)), expected)

    def test_an_answer_with_drafts_leaves_states(self):
        model = FAMILIES / "qwen3_5"
        prompt = ids(40, 7)
        answer = answer_of(model, prompt, 120, *drafts(4))
        made = [{"prompt_token_ids": prompt, "max_tokens": 120, "ignore_eos": True, "temperature": 0.0},
                {"prompt_token_ids": prompt + answer + ids(9, 8), "max_tokens": 5, "ignore_eos": True, "temperature": 0.0}]
        answers = run_jsonl(made, "--max-num-seqs", "1", "--block-size", str(BLOCK), *drafts(4), model=str(model))
        self.assertGreaterEqual(answers[1]["usage"]["cached_tokens"], 128)
        fresh = run_jsonl(made[1:], "--no-enable-prefix-caching", model=str(model))
        self.assertEqual(answers[1]["token_ids"], fresh[0]["token_ids"])

    def test_trees_are_refused_by_name(self):
        done = run("-m", FAMILIES / "qwen3_next", "--prompt-ids", "5,6,7", "-n", "4", *drafts(3, "draft_model", model=str(FAMILIES / "llama"), tree_width=2),
                   check=False)
        self.assertEqual(done.returncode, 64)
        self.assertIn("Qwen3NextForCausalLM has layers with linear attention", done.stderr)


class Limits(unittest.TestCase):
    def test_the_plan_lists_slots(self):
        done = subprocess.run([BIN / "nvllm-inspect", "plan", "-m", FAMILIES / "qwen3_5"], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"states +[\d,]+ a slot +[\d,]+ slots")


if __name__ == "__main__":
    unittest.main()
