"""Models that several ranks compute: the answers of one rank, and as many bytes between them as the formulas say.

Ids are those of one rank. Stages of a pipeline change no bit. Ranks that share out a layer sum parts of products: logprobs are within a
bound of one rank's, and the same in every run and over every way that data goes.
"""

import json
import os
import random
import re
import subprocess
import tempfile
import unittest

from family_testing import FAMILIES, context_of, essence
from programs import BIN, DEMO, RUN, SOURCE, environment, run, run_jsonl
from serve_testing import Server

QUANTIZED = SOURCE / "tests" / "fixtures" / "quantized"
VARIANTS = SOURCE / "tests" / "fixtures" / "variants"
# Between float32 sums of other parts. Where x is rounded to few bits, the smallest difference may round a value the other way.
BOUND = 1e-5
BOUND_OF_ROUNDED = 0.05
ROUNDS_ACTIVATIONS = {"fp8", "fp8_block", "fp8_deepseek", "fp8_dynamic", "mixed", "nvfp4", "w4a8", "w8a8"}
# Their layers read keys and values of others, which no stage may part.
UNDIVIDED = {"gemma4"}


def tensor(ranks):
    return ("--tensor-parallel-size", str(ranks))


def pipeline(stages):
    return ("--pipeline-parallel-size", str(stages))


LAYOUTS = {"tp2": tensor(2), "tp4": tensor(4), "tp6": tensor(6), "pp2": pipeline(2), "tp2pp2": tensor(2) + pipeline(2)}
EXPERTS = {"ep2": tensor(2) + ("--enable-expert-parallel",), "ep4": tensor(4) + ("--enable-expert-parallel",),
           "ep2pp2": tensor(2) + pipeline(2) + ("--enable-expert-parallel",)}
LAYOUTS |= EXPERTS
MPI = ("--distributed-executor-backend", "mpi", "--threads", "1")
# Every family and scheme over MPI instead of threads, which takes several times as long.
WAY = MPI if os.environ.get("NVLLM_TEST_OVER_MPI") else ()


def requests(config):
    """Prompts of unequal length, several with a common beginning, some longer than a sliding window."""
    context = min(context_of(config), 256)
    generator = random.Random(3)

    def ids(count):
        return [generator.randrange(3, config["vocab_size"]) for _ in range(count)]

    made = []
    common = ids(min(40, context // 4))
    for index in range(6):
        prompt = (common if index % 2 == 0 else []) + ids(1 + index * context // 12)
        made.append({"prompt_token_ids": prompt, "max_tokens": 10 + index, "logprobs": 2, "ignore_eos": True, "seed": index,
                     "temperature": 0.0})
    return made


def text_config(folder):
    config = json.loads((folder / "config.json").read_text())
    return config.get("text_config", config)


def folders(root):
    return sorted(path.parent for path in root.glob("*/config.json"))


def difference(one, other):
    """The largest between logprobs of the same tokens."""
    largest = 0.0
    for first, second in zip(one, other):
        for a, b in zip(first["logprobs"]["content"], second["logprobs"]["content"]):
            largest = max(largest, abs(a["logprob"] - b["logprob"]))
    return largest


def sizes_of_tensors(file):
    with open(file, "rb") as data:
        header = json.loads(data.read(int.from_bytes(data.read(8), "little")))
    return {name: tensor["data_offsets"][1] - tensor["data_offsets"][0] for name, tensor in header.items() if name != "__metadata__"}


def has_mpi():
    done = subprocess.run([str(BIN / "nvllm_test_ranks"), str(BIN.parent / "lib" / "libnanovllm_mpi.so"), "look"], capture_output=True,
                          text=True, check=True)
    return bool(done.stdout)


class Ranks(unittest.TestCase):
    def compare(self, folder, layouts, bound):
        made = requests(text_config(folder))
        alone = run_jsonl(made, "--dtype", "float32", model=str(folder))
        for name in layouts:
            if "pp" in name and folder.name in UNDIVIDED:
                continue
            with self.subTest(model=folder.name, layout=name):
                shared = run_jsonl(made, "--dtype", "float32", *LAYOUTS[name], *WAY, model=str(folder))
                self.assertEqual([answer["token_ids"] for answer in shared], [answer["token_ids"] for answer in alone])
                if name.startswith("pp"):
                    self.assertEqual(essence(shared), essence(alone))
                self.assertLess(difference(shared, alone), bound)

    def test_every_family(self):
        found = folders(FAMILIES)
        self.assertGreaterEqual(len(found), 60)
        for folder in found:
            has_experts = any("expert" in key for key in text_config(folder))
            self.compare(folder, LAYOUTS if has_experts else LAYOUTS.keys() - EXPERTS.keys(), BOUND)

    def test_every_scheme(self):
        found = folders(QUANTIZED)
        self.assertGreaterEqual(len(found), 20)
        for folder in found:
            self.compare(folder, ("tp2", "tp4", "pp2"), BOUND_OF_ROUNDED if folder.name in ROUNDS_ACTIVATIONS else BOUND)

    def test_layers_with_states_are_shared_out(self):
        for name in ("qwen3_next", "qwen3_5", "bamba", "falcon_h1", "falcon_h1_plain", "mamba2", "nemotron_h", "lfm2"):
            command = [str(BIN / "nvllm-inspect"), "topology", "-m", str(FAMILIES / name), "--devices", "2", "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
            whole = {split["tensor"]: split["replicated_modules"] for split in json.loads(done.stdout)["splits"]}
            self.assertEqual(whole[2], 0, name)

    def test_other_forms_of_files(self):
        for folder in folders(VARIANTS):
            self.compare(folder, ("tp2", "tp4", "pp2"), BOUND)

    def test_layers_that_no_stage_may_part_are_named(self):
        done = run("-m", str(FAMILIES / "gemma4"), "-p", "x", *pipeline(2), check=False)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("cannot be divided into so many stages", done.stderr)

    def test_ways_of_the_data(self):
        """Threads of this process, of the worker's, and processes over MPI give the same bits, again and again."""
        self.assertTrue(has_mpi() or os.environ.get("NVLLM_WITHOUT_MPI"), "no MPI is installed here; NVLLM_WITHOUT_MPI=1 leaves it out")
        for name in ("qwen3", "deepseek_v2", "qwen3_next", "gpt_oss"):
            made = requests(text_config(FAMILIES / name))
            for layout in ("tp2", "tp4", "pp2", "tp2pp2") + (("ep4",) if name in ("deepseek_v2", "gpt_oss") else ()):
                expected = essence(run_jsonl(made, *LAYOUTS[layout], model=str(FAMILIES / name)))
                ways = {"again": (), "process": ("--isolation", "process")}
                if has_mpi():
                    ways["mpi"] = MPI
                for way, arguments in ways.items():
                    with self.subTest(model=name, layout=layout, way=way):
                        self.assertEqual(essence(run_jsonl(made, *LAYOUTS[layout], *arguments, model=str(FAMILIES / name))), expected)

    def test_ranks_that_others_start(self):
        if not has_mpi():
            self.skipTest("LEFT OUT: no MPI is installed here")
        secret = environment(NVLLM_RANK_SECRET="of this test")
        port = 20000 + os.getpid() % 20000
        address = f"127.0.0.1:{port}"
        command = [RUN, "-m", str(FAMILIES / "qwen3"), "--input-format", "jsonl", "--output-format", "jsonl", *tensor(2),
                   "--distributed-executor-backend", "external", "--rank-address", address]
        made = requests(text_config(FAMILIES / "qwen3"))
        open_mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        worker = str(BIN.parent / "libexec" / "nanovllm" / "nvllm-worker")
        with subprocess.Popen(["mpirun", "-n", "2", worker, "join", address], env=secret | open_mpi) as ranks:
            done = subprocess.run(command, input="".join(json.dumps(one) + "\n" for one in made), capture_output=True, text=True,
                                  timeout=120, env=secret)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(ranks.wait(60), 0)
        shared = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(essence(shared), essence(run_jsonl(made, *tensor(2), model=str(FAMILIES / "qwen3"))))

    def test_bytes_between_ranks(self):
        config = text_config(FAMILIES / "llama")
        hidden, layers, vocabulary = config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]
        made = [{"prompt_token_ids": list(range(5, 14)), "max_tokens": 5, "temperature": 0.0, "ignore_eos": True}]

        def reduced(tokens, ranks):  # by all ranks: each sends 2 (N - 1) / N of the values
            return 2 * (ranks - 1) * tokens * hidden * 4

        def gathered(rows, ranks):
            return (ranks - 1) * rows * vocabulary * 4

        for name, ranks, stages in (("tp2", 2, 1), ("tp4", 4, 1), ("pp2", 1, 2), ("tp2pp2", 2, 2)):
            with self.subTest(layout=name):
                steps = self.steps_of(made, *LAYOUTS[name])
                self.assertGreater(len(steps), 3)
                for step in steps:
                    tokens = step["num_tokens"]
                    expected = 0
                    if ranks > 1:  # the embedding, attention and MLP of each layer, and the logits of one row
                        expected += (1 + 2 * layers) * reduced(tokens, ranks) + gathered(1, ranks)
                    expected += ranks * (stages - 1) * tokens * hidden * 4
                    self.assertEqual(step["rank_bytes"], expected)

    def test_each_rank_reads_its_bytes(self):
        """Of files, and in memory as the plan says: the whole divided by the ranks, and what each has all of."""
        folder = FAMILIES / "llama"
        heads = text_config(folder)["num_key_value_heads"]
        sizes = sizes_of_tensors(folder / "model.safetensors")
        for name, ranks in (("tp2", 2), ("tp4", 4)):
            expected = 0
            for tensor_name, size in sizes.items():
                is_of_heads = "k_proj" in tensor_name or "v_proj" in tensor_name
                expected += size if "norm" in tensor_name else size // min(ranks, heads) if is_of_heads else size // ranks
            with self.subTest(layout=name):
                found = self.loaded(folder, *LAYOUTS[name])
                self.assertEqual([read for _, read in found], [expected] * ranks)
                self.assertEqual([held for held, _ in found], self.planned(folder, *LAYOUTS[name]))
        stages = self.loaded(folder, *LAYOUTS["pp2"])
        # Each stage has the last norm, which measures its scratch memory.
        self.assertEqual(sum(read for _, read in stages), sum(sizes.values()) + sizes["model.norm.weight"])
        self.assertEqual([held for held, _ in stages], self.planned(folder, *LAYOUTS["pp2"]))

    def loaded(self, folder, *arguments):
        """Of each rank, the bytes of its weights in memory and those that it read."""
        with Server("--tokenizer", DEMO, "--log-level", "debug", *arguments, model=folder) as server:
            log = server.log
        found = re.findall(r"rank (\d+) of \d+: weights .*\((\d+) bytes, of files (\d+)\)", log)
        self.assertEqual([int(rank) for rank, _, _ in found], list(range(len(found))), log)
        return [(int(held), int(read)) for _, held, read in found]

    @staticmethod
    def planned(folder, *arguments):
        """Bytes of weights of each rank, by the plan."""
        command = [str(BIN / "nvllm-inspect"), "plan", "-m", str(folder), "--json", *arguments]
        plan = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout)
        return [rank["weight_bytes"] for rank in plan["ranks"]]

    def steps_of(self, made, *arguments):
        with tempfile.NamedTemporaryFile() as log:
            run_jsonl(made, "--step-log", log.name, *arguments, model=str(FAMILIES / "llama"))
            return [json.loads(line) for line in log.read().decode().splitlines()]


class Refusals(unittest.TestCase):
    def refused(self, code, words, *arguments, **variables):
        done = run("-m", str(FAMILIES / "qwen3"), "-p", "x", *arguments, check=False, env=environment(**variables))
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)

    def test_what_cannot_be(self):
        self.refused(78, "cannot be divided into so many stages", *pipeline(50))
        self.refused(64, "--tensor-parallel-size", "--tensor-parallel-size", "0")
        self.refused(64, "need --rank-address", *tensor(2), "--distributed-executor-backend", "external")
        self.refused(64, "HOST:PORT is expected", *tensor(2), "--distributed-executor-backend", "mpi", "--rank-address", "here")
        self.refused(69, "no-such-launcher", *tensor(2), "--distributed-executor-backend", "mpi", "--rank-launcher", "no-such-launcher -x")
        self.refused(69, "before all 2 ranks had come", *tensor(2), "--distributed-executor-backend", "mpi", "--rank-launcher", "false")

    def test_a_worker_that_nobody_started(self):
        worker = str(BIN.parent / "libexec" / "nanovllm" / "nvllm-worker")
        for variables, words in (({}, "was started as no rank"), ({"RANK": "0", "WORLD_SIZE": "2"}, "NVLLM_RANK_SECRET is not set"),
                                 ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK=x"), ({"RANK": "2", "WORLD_SIZE": "2"}, "there is no such rank")):
            done = subprocess.run([worker, "join", "127.0.0.1:1"], capture_output=True, text=True, timeout=60,
                                  env=environment(**variables))
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
