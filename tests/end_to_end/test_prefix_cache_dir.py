"""Blocks of the prefix cache in files: they outlive processes, are shared by them, and are never believed for what they are not."""

import json
import os
import pathlib
import random
import subprocess
import time
import unittest

from programs import DEMO, RUN, SOURCE, FolderTest, environment, run, run_jsonl

SENTENCE = "Once upon a time there was a little girl who found a red ball in the garden. "
FAMILIES = SOURCE / "tests" / "fixtures" / "families"
NUM_KILLS = int(os.environ.get("NVLLM_TEST_KILLS", "12"))


def requests(count, seed=1):
    """Long prompts, of which some begin alike."""
    generator = random.Random(seed)
    words = SENTENCE.split()
    made = []
    for index in range(count):
        text = SENTENCE * 6 + " ".join(generator.choices(words, k=60)) if index % 2 else " ".join(generator.choices(words, k=150))
        made.append({"prompt": text, "max_tokens": 24, "logprobs": 2, "ignore_eos": True, "seed": index, "temperature": 0.7 * (index % 2)})
    return made


def essence(answers):
    return [(answer["token_ids"], answer["logprobs"], answer["finish_reason"]) for answer in answers]


def cached(answers):
    return sum(answer["usage"].get("cached_tokens", 0) for answer in answers)


class Folders(FolderTest):
    @classmethod
    def setUpClass(cls):
        cls.requests = requests(10)
        cls.expected = essence(run_jsonl(cls.requests))

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"

    def answers(self, *arguments, env=None):
        answers = run_jsonl(self.requests, "--prefix-cache-dir", self.cache, *arguments, env=env)
        self.assertEqual(essence(answers), self.expected)
        return answers

    def inside(self, pattern):
        return sorted(self.cache.glob(f"*/{pattern}"))

    def test_answers_after_a_restart(self):
        self.assertLess(cached(self.answers()), 5 * 120)
        prompt_tokens = 0
        for arguments in ((), ("--max-num-seqs", "1"), ("--isolation", "process"), ("--kv-cache-memory-bytes", "1MiB", "--max-model-len", "512"),
                          ("--data-parallel-size", "2")):
            with self.subTest(arguments=arguments):
                answers = self.answers(*arguments)
                prompt_tokens = sum(answer["usage"]["prompt_tokens"] for answer in answers)
                self.assertGreater(cached(answers), 0.85 * prompt_tokens)

    def test_what_keys_and_values_depend_on_tells_folders_apart(self):
        for index, arguments in enumerate(((), ("--dtype", "float32"), ("--block-size", "8"), ("--kv-cache-dtype", "int8"))):
            first = run_jsonl(self.requests[:2], "--prefix-cache-dir", self.cache, *arguments)
            again = run_jsonl(self.requests[:2], "--prefix-cache-dir", self.cache, *arguments)
            self.assertEqual(essence(first), essence(again))
            self.assertLess(cached(first), cached(again))
            self.assertEqual(len(self.inside("key")), index + 1)
        # The answer itself is cached too: its tokens come again as a prompt.
        other = run_jsonl([{**self.requests[0], "cache_salt": "another"}], "--prefix-cache-dir", self.cache)
        self.assertEqual(cached(other), 0)

    def test_windows_states_and_latent_vectors(self):
        for family in sorted(FAMILIES.iterdir()):
            if family.name not in ("gemma3", "mistral_window", "qwen3_next", "deepseek_v3", "gpt_oss", "bamba"):
                continue
            prompts = [{"prompt_token_ids": [1 + (7 * i + index) % 60 for i in range(90)], "max_tokens": 8, "logprobs": 1, "ignore_eos": True, "temperature": 0}
                       for index in range(3)]
            arguments = ("--dtype", "float32", "--block-size", "4")
            with self.subTest(family=family.name):
                expected = essence(run_jsonl(prompts, *arguments, model=family))
                for _ in range(2):
                    answers = run_jsonl(prompts, *arguments, "--prefix-cache-dir", self.cache, model=family)
                    self.assertEqual(essence(answers), expected)
                self.assertGreater(cached(answers), 3 * 60)

    def test_killed_while_it_writes(self):
        """Whenever that is, the next one starts, answers right, and uses what was whole."""
        generator = random.Random(5)
        begin = time.monotonic()
        run_jsonl(requests(40, seed=9), "--prefix-cache-dir", self.folder / "another", "--max-num-seqs", "2")
        duration = time.monotonic() - begin
        used = 0
        for kill in range(NUM_KILLS):
            # Others each time, so that there is something to write.
            made = self.requests + requests(40, seed=1000 + kill)
            lines = "".join(json.dumps(request) + "\n" for request in made).encode()
            arguments = [RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "--prefix-cache-dir", self.cache, "--max-num-seqs", "2"]
            process = subprocess.Popen(list(map(str, arguments)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=environment())
            process.stdin.write(lines)
            process.stdin.close()
            time.sleep(generator.uniform(0.1, 1.0) * duration)
            process.kill()
            process.wait()
            if kill % 4 == 3:
                answers = run_jsonl(self.requests[:3], "--prefix-cache-dir", self.cache)
                self.assertEqual(essence(answers), self.expected[:3])
                used += cached(answers) > 100
                answers = run_jsonl(made, "--prefix-cache-dir", self.cache)
                self.assertEqual(essence(answers), essence(run_jsonl(made)))
        self.answers()
        self.assertGreater(used, 0)
        print(f"{NUM_KILLS} kills, {len(self.inside('*.log'))} segments")

    def test_a_disk_that_is_full(self):
        """At each write in turn: nothing is lost but what would have been kept."""
        for first in (1, 2, 5, 6, 7, 8, 9, 12, 20, 40):
            with self.subTest(first=first):
                faults = environment(NVLLM_FAULTS=f"file.write:{first}+=errno=28")
                done = subprocess.run(list(map(str, [RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "--prefix-cache-dir",
                                                     self.folder / f"full{first}", "--isolation", "thread"])),
                                      input="".join(json.dumps(request) + "\n" for request in self.requests), text=True, capture_output=True,
                                      env=faults, check=False)
                if done.returncode != 0:
                    # Not even the folder could be made, which is said before anything is computed.
                    self.assertIn(done.returncode, (73, 74), done.stderr)
                    self.assertIn("full", done.stderr)
                    continue
                self.assertEqual(essence(map(json.loads, done.stdout.splitlines())), self.expected)
        self.answers()

    def test_two_at_once(self):
        arguments = [RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "--prefix-cache-dir", self.cache]
        lines = "".join(json.dumps(request) + "\n" for request in self.requests)
        for _ in range(3):
            both = [subprocess.Popen(list(map(str, arguments)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
                    for _ in range(3)]
            for process in both:
                process.stdin.write(lines)
                process.stdin.close()
                process.stdin = None
            for process in both:
                text, _ = process.communicate()
                self.assertEqual(process.returncode, 0)
                self.assertEqual(essence(map(json.loads, text.splitlines())), self.expected)
        self.assertEqual(len(self.inside("key")), 1)

    def test_files_that_are_damaged(self):
        self.answers()
        generator = random.Random(3)
        for trial in range(12):
            for path in self.inside("*.kv") + self.inside("*.log"):
                data = bytearray(path.read_bytes())
                for _ in range(1 + trial):
                    if data:
                        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
                if trial % 3 == 2:
                    data = data[:generator.randrange(len(data) + 1)]
                path.write_bytes(data)
            self.answers()

    def test_the_bound_holds(self):
        for seed in range(8):
            run_jsonl(requests(8, seed=100 + seed), "--prefix-cache-dir", self.cache, "--prefix-cache-disk-size", "8MiB")
            size = sum(path.stat().st_size for path in self.inside("*"))
            self.assertLess(size, 9 << 20)
        self.assertGreater(size, 3 << 20)

    def test_refusals(self):
        for arguments, code, says in ((("--no-enable-prefix-caching",), 64, "--prefix-cache-dir"),
                                      (("--tensor-parallel-size", "2"), 64, "--tensor-parallel-size"),
                                      (("--prefix-cache-disk-size", "1KiB"), 64, "--prefix-cache-disk-size")):
            done = run("-m", DEMO, "--prefix-cache-dir", self.cache, "-p", "x", *arguments, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)
        taken = self.folder / "file"
        taken.write_text("")
        done = run("-m", DEMO, "--prefix-cache-dir", taken, "-p", "x", check=False)
        self.assertEqual(done.returncode, 73, done.stderr)
        self.assertIn("file", done.stderr)


if __name__ == "__main__":
    unittest.main()
