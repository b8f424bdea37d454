"""Devices: a backend's module computes what the CPU does, and what is missing is said.

The modules are those of $NVLLM_TEST_MODULES, or of a build with tests: the example and the emulated CUDA. With the CUDA module
itself (scripts/gpu_check.sh) the same cases hold a GPU to the CPU's tokens.
"""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from family_testing import context_of
from programs import BIN, DEMO, MODULES, SOURCE, environment, run, run_jsonl
from quantize_testing import quantize
from serve_testing import Server

FAMILIES = sorted(path.parent for path in (SOURCE / "tests" / "fixtures" / "families").glob("*/config.json"))
EMBEDDINGS = SOURCE / "tests" / "fixtures" / "embeddings"
QUANTIZED = SOURCE / "tests" / "fixtures" / "quantized"
LLAMA = next(path for path in FAMILIES if path.name == "llama")
EXAMPLE = environment(NVLLM_BACKEND_PATH=str(MODULES))
MODULE_NAMES = sorted(re.fullmatch("libnanovllm_(.*)", path.stem)[1] for path in MODULES.glob("libnanovllm_*.so"))
CUDA = "cuda" if "cuda" in MODULE_NAMES else "cuda_emulated"
SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))
# What these join is tested under sanitizers part by part: graph_cache_test, device_sampler_test, scheduler_random_test.
not_sanitized = unittest.skipIf(SANITIZED, "whole models on emulated kernels take too long under a sanitizer")
with_cuda = unittest.skipUnless(CUDA in MODULE_NAMES, "built without the CUDA kernels")
with_example = unittest.skipIf(CUDA == "cuda", "the example module and fault points belong to builds with tests")
USAGE, UNAVAILABLE, NO_FIT = 64, 69, 77
NAN, INFINITY = 0x7fc00000, 0x7f800000  # as bits of float32


def requests(vocab_size, context):
    """Prompts of unequal length, some with a common beginning, some longer than a sliding window."""
    generator = random.Random(5)
    shared = [generator.randrange(3, vocab_size) for _ in range(min(20, context // 4))]
    return [{"prompt_token_ids": (shared if index % 2 == 0 else [])
             + [generator.randrange(3, vocab_size) for _ in range(1 + 6 * index)],
             "max_tokens": 3, "ignore_eos": True, "temperature": 0.0} for index in range(3)]


def set_value(path, tensor, index, float32_bits):
    """Overwrites one value of a tensor of float32, float16 or bfloat16 in a safetensors file."""
    content = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    entry = json.loads(content[8:begin])[tensor]
    if entry["dtype"] == "F32":
        value = float32_bits.to_bytes(4, "little")
    elif entry["dtype"] == "BF16":
        value = (float32_bits >> 16).to_bytes(2, "little")
    else:
        value = struct.pack("<e", struct.unpack("<f", float32_bits.to_bytes(4, "little"))[0])
    at = begin + entry["data_offsets"][0] + index * len(value)
    content[at:at + len(value)] = value
    path.write_bytes(content)


def ids(answers):
    return [answer["token_ids"] for answer in answers]


class Devices(unittest.TestCase):
    def fails(self, code, *arguments, says=(), env=EXAMPLE):
        done = run(*arguments, check=False, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        for words in says:
            self.assertIn(words, done.stderr)

    def answers(self, made, model, *arguments, device):
        return ids(run_jsonl(made, "--dtype", "float32", "--device", device, *arguments, model=str(model), env=EXAMPLE))

    @with_example
    def test_there_are_modules(self):
        self.assertIn("example", MODULE_NAMES)

    def test_every_family_gives_the_ids_of_the_cpu(self):
        self.assertGreaterEqual(len(FAMILIES), 10)
        # Emulated kernels under a sanitizer take tens of times as long: three families there, of every kind of layer.
        families = [LLAMA.with_name(name) for name in ("gpt2", "gemma2", "mixtral")] if SANITIZED else FAMILIES
        for family in families:
            config = json.loads((family / "config.json").read_text())
            made = requests(config["vocab_size"], min(context_of(config), 256))
            expected = self.answers(made, family, device="cpu")
            for module in MODULE_NAMES:
                with self.subTest(family=family.name, module=module):
                    lacks = self.lacks(config, module)
                    if lacks:
                        self.fails(UNAVAILABLE, "-m", family, "--device", module, "--prompt-ids", "5,6", "-n", "1", says=[lacks, "use --device cpu"])
                        continue
                    self.assertEqual(self.answers(made, family, device=module), expected)

    def lacks(self, config, module):
        """What of a family a module does not compute, in the words of the message."""
        if module != "example":
            return None
        has_states = {"linear_attention", "conv"} & set(config.get("layer_types") or []) or any(key.startswith(("mamba_", "state_")) for key in config)
        if has_states:
            return "has no linear attention"
        return "has no latent attention" if "kv_lora_rank" in config else None

    def test_dummy_weights_are_the_same_wherever_they_are_made(self):
        made = requests(64, 64)
        for family in (LLAMA, LLAMA.with_name("mixtral")):
            expected = self.answers(made, family, "--load-format", "dummy", device="cpu")
            self.assertNotEqual(expected, self.answers(made, family, device="cpu"))
            for module in MODULE_NAMES:
                with self.subTest(family=family.name, module=module):
                    self.assertEqual(self.answers(made, family, "--load-format", "dummy", device=module), expected)

    @not_sanitized
    def test_two_of_four_weights(self):
        """CUDA's kernels multiply what is kept, as the CPU does; the example module has no such op, so its models get their zeros back."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            quantize("-m", LLAMA, "-o", out, "--method", "magnitude", "--mask-structure", "2:4", "--scheme", "none", "--save-compressed")
            made = requests(64, 64)
            expected = self.answers(made, out, device="cpu")
            self.assertNotEqual(expected, self.answers(made, LLAMA, device="cpu"))
            for module in MODULE_NAMES:
                with self.subTest(module=module):
                    self.assertEqual(self.answers(made, out, device=module), expected)
                    said = run("-m", out, "--device", module, "--dtype", "float32", "--input-format", "jsonl",
                               stdin=json.dumps(made[0]) + "\n", env=EXAMPLE).stderr
                    self.assertEqual("14 of 14 quantized linears" in said, module == "example", said)

    @with_example
    def test_workers_of_their_own_compute_on_devices(self):
        made = requests(64, 64)
        expected = self.answers(made, LLAMA, device="cpu")
        self.assertEqual(self.answers(made, LLAMA, "--isolation", "process", device="example:1"), expected)

    @not_sanitized
    def test_tokens_are_chosen_on_the_device_where_it_can(self):
        """Each way to choose alone and beside the others; the step log says who chose."""
        ways = ({"temperature": 0.0}, {"temperature": 0.7, "top_k": 9}, {"top_p": 0.8, "min_p": 0.02},
                {"repetition_penalty": 1.4, "frequency_penalty": 0.5, "presence_penalty": 0.2},
                {"logit_bias": {"7": 3.0, "9": -50.0}, "min_tokens": 4, "ignore_eos": False},
                {"allowed_token_ids": [5, 6, 7, 8]}, {"logprobs": 4, "temperature": 0.9}, {"logprobs": 2, "frequency_penalty": 1.0})
        host_ways = ({"typical_p": 0.7}, {"samplers": ["top_p", "temperature"]}, {"prompt_logprobs": 2})
        generator = random.Random(11)
        made = [{"prompt_token_ids": [generator.randrange(3, 64) for _ in range(5 + index)], "max_tokens": 5, "seed": 40 + index,
                 "ignore_eos": True, **way} for index, way in enumerate(ways + host_ways)]
        expected = run_jsonl(made, "--dtype", "float32", model=str(LLAMA))
        for module in MODULE_NAMES:
            with self.subTest(module=module), tempfile.TemporaryDirectory() as folder:
                log = pathlib.Path(folder) / "steps"
                answers = run_jsonl(made, "--dtype", "float32", "--device", module, "--step-log", log, model=str(LLAMA), env=EXAMPLE)
                self.assertEqual(ids(answers), ids(expected))
                for ours, theirs in zip(answers, expected, strict=True):
                    self.assertEqual(ours["finish_reason"], theirs["finish_reason"])
                    self.compare_logprobs(ours.get("logprobs"), theirs.get("logprobs"))
                chosen = sum(json.loads(line)["sampled_on_device"] for line in log.read_text().splitlines())
                tokens = sum(len(answer["token_ids"]) for answer in answers[:len(ways)])
                # The prompt's rows come to the host, those of its answer do not.
                tokens += len(answers[-1]["token_ids"])
                self.assertEqual(chosen, 0 if module == "example" else tokens)

    def compare_logprobs(self, ours, theirs):
        self.assertEqual(ours is None, theirs is None)
        if ours is None:
            return
        for one, other in zip(ours["content"], theirs["content"], strict=True):
            self.assertEqual([one["rank"]] + [top["token_id"] for top in one["top_logprobs"]],
                             [other["rank"]] + [top["token_id"] for top in other["top_logprobs"]])
            self.assertAlmostEqual(one["logprob"], other["logprob"], delta=1e-3)

    def logged(self, made, model, *arguments):
        """Ids, and sums over the steps, on CUDA."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps"
            answers = self.answers(made, model, *arguments, "--step-log", log, device=CUDA)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
        return answers, {key: sum(step[key] for step in steps) for key in steps[0]}

    @with_cuda
    @not_sanitized
    def test_graphs_change_no_token(self):
        """Alone and in company, with layers of experts and with windows, greedy and drawn."""
        for family in ("llama", "mixtral", "gemma3"):
            generator = random.Random(17)
            made = [{"prompt_token_ids": [generator.randrange(3, 64) for _ in range(2 + 7 * index)], "max_tokens": 4 + 2 * index,
                     "ignore_eos": True, "temperature": 0.9 * (index % 2), "seed": index, "logprobs": index // 2} for index in range(4)]
            with self.subTest(family=family):
                model = LLAMA.with_name(family)
                expected, plain = self.logged(made, model, "--enforce-eager")
                self.assertEqual((plain["graph_captures"], plain["graph_launches"]), (0, 0))
                answers, figures = self.logged(made, model)
                self.assertEqual(answers, expected)
                self.assertGreater(figures["graph_captures"], 0)
                self.assertGreater(figures["graph_launches"], figures["graph_captures"])
                self.assertEqual(self.logged(made[-1:], model)[0], expected[-1:])
                answers, figures = self.logged(made, model, "--max-cuda-graph-size", "1")
                self.assertEqual(answers, expected)

    def little_room(self):
        """Requests of which some must give way with the options, and their answers with room."""
        made = [{**request, "max_tokens": 30} for request in requests(64, 128)[:2]]
        tight = ("--max-blocks", "8", "--block-size", "8", "--swap-space", "16MiB", "--max-model-len", "64", "--no-enable-prefix-caching")
        return made, tight, self.answers(made, LLAMA, device="cpu")

    @with_cuda
    @not_sanitized
    def test_graphs_change_no_token_of_those_that_gave_way(self):
        made, tight, expected = self.little_room()
        for mode in ("swap", "recompute"):
            with self.subTest(mode=mode):
                answers, figures = self.logged(made, LLAMA, *tight, "--preemption-mode", mode)
                self.assertEqual(answers, expected)
                self.assertGreater(figures["graph_launches"], 5)
                self.assertGreater(figures["num_preemptions"], 0)

    def asynchronous(self, made, *arguments, env=None, device=CUDA):
        """Ids, planned a step ahead, on a device that does its work as late as it may."""
        lines = "".join(json.dumps(request) + "\n" for request in made)
        done = run("-m", LLAMA, "--input-format", "jsonl", "--output-format", "jsonl", "--dtype", "float32", "--device", device,
                   "--async-scheduling", *arguments, stdin=lines,
                   env=environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EMULATED_CUDA="late", **(env or {})))
        if env is None:
            self.assertEqual(done.stderr, "")
        return ids([json.loads(line) for line in done.stdout.splitlines()])

    def mixed(self, *ways):
        generator = random.Random(23)
        return [{"prompt_token_ids": [generator.randrange(3, 64) for _ in range(2 + 5 * index)], "max_tokens": 5 + 2 * index,
                 "seed": index, **way} for index, way in enumerate(ways)]

    @with_cuda
    @not_sanitized
    def test_planning_ahead_changes_no_token(self):
        """Answers of unequal length, some of which end early."""
        plain = self.mixed({}, {"temperature": 0.0}, {"top_k": 5, "logprobs": 2}, {"temperature": 0.0, "n": 2},
                           {"stop_token_ids": list(range(3, 40))}, {"logit_bias": {"9": 4.0}})
        # Some that need the host, or counts that it keeps, between two tokens.
        needy = self.mixed({"temperature": 0.0}, {"frequency_penalty": 1.0}, {"typical_p": 0.7}, {"min_tokens": 3},
                           {"use_beam_search": True, "n": 2, "temperature": 0.0}, {"prompt_logprobs": 1})
        for name, made in (("plain", plain), ("needy", needy)):
            expected = ids(run_jsonl(made, "--dtype", "float32", model=str(LLAMA)))
            for isolation in ("thread", "process"):
                with self.subTest(made=name, isolation=isolation):
                    self.assertEqual(self.asynchronous(made, "--isolation", isolation), expected)
            with self.subTest(made=name, graphs=False):
                self.assertEqual(self.asynchronous(made, "--enforce-eager", "--max-num-seqs", "2"), expected)
            for module in MODULE_NAMES:
                with self.subTest(made=name, device=module):
                    self.assertEqual(self.asynchronous(made, device=module), expected)
        self.assertEqual(self.asynchronous(plain, device="cpu"), ids(run_jsonl(plain, "--dtype", "float32", model=str(LLAMA))))

    @with_cuda
    @not_sanitized
    def test_an_answer_that_ends_early_costs_one_token_when_planned_ahead(self):
        prompt = {"prompt_token_ids": [5, 6, 7], "max_tokens": 12, "temperature": 0.0, "ignore_eos": True}
        [full] = self.answers([prompt], LLAMA, device="cpu")
        stop = full[6]
        generated = full.index(stop) + 1
        # The second keeps the engine at work, and ends by its length, which is known ahead.
        for first, extra in (({**prompt, "stop_token_ids": [stop]}, 1), (prompt, 0)):
            expected = [full[:generated] if extra else full, full]
            computed = sum(3 + len(answer) - 1 for answer in expected)
            for isolation in ("thread", "process"):
                with self.subTest(isolation=isolation, extra=extra):
                    options = ("--isolation", isolation, "--max-num-seqs", "1", "--no-enable-prefix-caching")
                    plain, figures = self.logged([first, prompt], LLAMA, *options)
                    self.assertEqual((len(plain[0]), figures["num_tokens"]), (len(expected[0]), computed))
                    ahead, figures = self.logged([first, prompt], LLAMA, *options, "--async-scheduling")
                    self.assertEqual((ahead, figures["num_tokens"]), (plain, computed + extra))

    @with_cuda
    @not_sanitized
    def test_planning_ahead_with_little_room(self):
        made, tight, expected = self.little_room()
        for mode in ("swap", "recompute"):
            with self.subTest(mode=mode):
                self.assertEqual(self.asynchronous(made, *tight, "--preemption-mode", mode), expected)

    @with_cuda
    @with_example
    @not_sanitized
    def test_planning_ahead_survives_faults(self):
        made = self.mixed({"temperature": 0.0}, {}, {"top_k": 5}, {"temperature": 0.0})
        for index, request in enumerate(made):
            request["prompt_token_ids"][0] = 60 + index  # what faults name them by
        expected = ids(run_jsonl(made, "--dtype", "float32", model=str(LLAMA)))
        for isolation in ("thread", "process"):
            for fault in ("worker.step:4=throw", "worker.step:5=bad_alloc", "worker.sequence@61:4=throw", "engine.step:6=throw"):
                with self.subTest(isolation=isolation, fault=fault):
                    self.assertEqual(self.asynchronous(made, "--isolation", isolation, env={"NVLLM_FAULTS": fault}), expected)
        with self.subTest(fault="the worker ends"):
            self.assertEqual(self.asynchronous(made, "--isolation", "process", env={"NVLLM_FAULTS": "worker.step:6=abort"}), expected)

    @with_example
    @not_sanitized
    def test_rows_that_are_no_numbers_are_found_on_a_device(self):
        made = requests(64, 64)
        expected = self.answers(made, LLAMA, device="cpu")
        poisoned = made[1]["prompt_token_ids"][0]
        for module in MODULE_NAMES:
            with self.subTest(module=module):
                env = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_FAULTS=f"worker.logits@{poisoned}:1=nan")
                lines = "".join(json.dumps(request) + "\n" for request in made)
                env["NVLLM_EMULATED_CUDA"] = "late"
                done = run("--async-scheduling", "-m", LLAMA, "--input-format", "jsonl", "--output-format", "jsonl", "--dtype", "float32", "--device", module,
                           stdin=lines, env=env, check=False)
                answers = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertIn("not finite", json.dumps(answers[1]) + done.stderr)
                self.assertEqual([answers[0]["token_ids"], answers[2]["token_ids"]], [expected[0], expected[2]])

    @not_sanitized
    def test_a_weight_that_is_no_number_is_a_fault_though_activations_are_rounded(self):
        """Rounding x to codes must not make numbers of NaN or infinity: every device refuses as the CPU does."""
        options = ("--prompt-ids", "5,9,11", "--max-tokens", "4", "--temperature", "0", "--ignore-eos", "--output-format", "json")
        for scheme in ("w8a8", "w4a8", "nvfp4", "fp8_dynamic"):
            with tempfile.TemporaryDirectory() as folder:
                model = pathlib.Path(folder) / scheme
                shutil.copytree(QUANTIZED / scheme, model)
                for bits in (None, NAN, INFINITY):
                    if bits is not None:
                        set_value(model / "model.safetensors", "model.layers.1.post_attention_layernorm.weight", 3, bits)
                    for device in ("cpu", *MODULE_NAMES):
                        with self.subTest(scheme=scheme, device=device, bits=bits):
                            done = run("-m", model, *options, "--device", device, check=False, env=EXAMPLE)
                            answer = json.loads(done.stdout)
                            if bits is None:
                                self.assertEqual((done.returncode, len(answer["token_ids"])), (0, 4), done.stderr)
                            else:
                                self.assertEqual((done.returncode, answer["token_ids"]), (70, []))
                                self.assertIn("not finite", answer["error"]["message"])

    @with_example
    def test_narrow_types(self):
        made = requests(64, 64)
        for dtype in ("bfloat16", "float16"):
            with self.subTest(dtype=dtype):
                answers = run_jsonl(made, "--dtype", dtype, "--device", "example", model=str(LLAMA), env=EXAMPLE)
                self.assertEqual(ids(answers), ids(run_jsonl(made, "--dtype", dtype, model=str(LLAMA))))

    @with_example
    def test_sequences_that_give_way_are_swapped_to_the_host_and_back(self):
        made = requests(64, 128)
        for request in made:
            request["max_tokens"] = 30
        tight = ("--max-blocks", "8", "--block-size", "8", "--swap-space", "16MiB", "--preemption-mode", "swap",
                 "--max-model-len", "64", "--no-enable-prefix-caching")
        fitting = [request for request in made if len(request["prompt_token_ids"]) + 30 <= 64]
        self.assertGreaterEqual(len(fitting), 2)
        self.assertEqual(self.answers(fitting, LLAMA, *tight, device="example"), self.answers(fitting, LLAMA, device="cpu"))

    def vectors(self, model, device):
        with Server("--device", device, "--dtype", "float32", model=str(model), env=EXAMPLE) as server:
            answer = server.post("/v1/embeddings", {"input": [[5, 9, 11, 4], [7, 8]]})
            self.assertEqual(answer.status, 200, answer.text)
            return [row["embedding"] for row in answer.json()["data"]]

    def test_vectors_are_those_of_the_cpu(self):
        for model in (EMBEDDINGS / "bert", LLAMA):
            with self.subTest(model=model.name):
                pairs = zip(self.vectors(model, MODULE_NAMES[-1]), self.vectors(model, "cpu"), strict=True)
                for ours, expected in pairs:
                    self.assertGreater(len(expected), 8)
                    for one, other in zip(ours, expected, strict=True):
                        self.assertAlmostEqual(one, other, delta=1e-4)

    @with_example
    def test_lost_devices_are_lost_workers(self):
        lost = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EXAMPLE_BACKEND="lost")
        prompt = ("-m", DEMO, "-p", "Once", "--max-tokens", "3", "--temperature", "0", "--dtype", "float32")
        done = run(*prompt, "--isolation", "process", "--device", "example", check=False, env=lost)
        self.assertIn("fell off the bus", done.stderr)
        self.assertIn("the worker is gone", done.stderr)
        self.assertEqual(done.stdout, run(*prompt).stdout)

    @with_example
    def test_ops_are_measured_on_a_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kernels.json"
            done = subprocess.run([BIN / "nvllm-bench", "kernels", "--device", "example", "-m", LLAMA, "--tokens", "8", "--sequences", "2",
                                   "--context", "20", "--working-set", "1", "--probe-bytes", "1MiB", "--repeats", "2", "--output-json",
                                   path], capture_output=True, text=True, env=EXAMPLE)
            self.assertEqual(done.returncode, 0, done.stderr)
            measured = json.loads(path.read_text())
        self.assertGreater(measured["roof"]["read_gb_s"], 0)
        self.assertGreater(measured["roof"]["product_gflop_s"], 0)
        self.assertEqual({op["op"].split()[0] for op in measured["ops"]},
                         {"matmul", "rms_norm", "rope", "gated_activation", "attention"})
        for op in measured["ops"]:
            self.assertGreater(op["median_us"], 0, op["op"])

    @with_example
    def test_what_is_missing(self):
        prompt = ("-m", DEMO, "-p", "x")
        bare = environment(NVLLM_BACKEND_PATH="/no/such/folder")
        self.fails(UNAVAILABLE, *prompt, "--device", "cuda:99", says=["--device cuda:99", "--device cpu"], env=bare)
        self.fails(UNAVAILABLE, *prompt, "--device", "example:7", says=["there is no device 7", "0 (Example 0)"])
        for name in ("tpu", "cpu:1", "cuda:x", ":1", "../example"):
            self.fails(USAGE, *prompt, "--device", name, says=[f"--device {name}", "auto, cpu, cuda"])
        self.fails(USAGE, *prompt, "--device", "example", "--block-size", "24", says=["--block-size 24", "such as 16"])
        for broken, words in (("version", "of the contract, this is"), ("op", "lacks rope"), ("devices", "no devices"), ("device", "of no use")):
            env = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EXAMPLE_BACKEND=broken)
            self.fails(UNAVAILABLE, *prompt, "--device", "example:0", says=[words], env=env)

    @with_example
    def test_what_a_device_cannot_do_or_does_slowly_is_said_at_the_start(self):
        prompt = ("-m", DEMO, "-p", "Once", "--max-tokens", "1", "--temperature", "0", "--dtype", "float32", "--device", "example")
        heads = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EXAMPLE_BACKEND="heads")
        for more in ((), ("--plan",)):
            self.fails(UNAVAILABLE, *prompt, *more, says=["heads of at most 4 values", "--device cpu"], env=heads)
        slow = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EXAMPLE_BACKEND="slow")
        for isolation in ("thread", "process"):
            said = run(*prompt, "--isolation", isolation, env=slow).stderr
            self.assertEqual(said.count("the example was told to be slow"), 1, said)
        self.assertEqual(run(*prompt, env=EXAMPLE).stderr, "")

    def test_a_file_that_is_no_module(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "libnanovllm_cuda.so").write_text("not a library")
            env = environment(NVLLM_BACKEND_PATH=folder)
            self.fails(UNAVAILABLE, "-m", DEMO, "-p", "x", "--device", "cuda", says=["libnanovllm_cuda.so"], env=env)
            # Nobody asked for it by name.
            self.assertEqual(run("-m", DEMO, "-p", "x", "--max-tokens", "1", env=env).returncode, 0)
            report = json.loads(self.doctor(env))
            cuda = next(row for row in report["findings"] if row["topic"] == "CUDA")
            self.assertIn(folder, cuda["text"])

    def doctor(self, env):
        return subprocess.run([str(BIN / "nvllm-inspect"), "doctor", "--json"], env=env, capture_output=True, text=True,
                              timeout=60).stdout

    @with_example
    def test_auto_takes_a_module_that_it_was_pointed_at(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(MODULES / "libnanovllm_example.so", pathlib.Path(folder) / "libnanovllm_cuda.so")
            env = environment(NVLLM_BACKEND_PATH=folder)
            plan = run("-m", DEMO, "--plan", env=env).stdout
            self.assertIn("example:0", plan)
            self.assertNotIn("example:0", run("-m", DEMO, "--plan", "--device", "cpu", env=env).stdout)
            env["NVLLM_EXAMPLE_BACKEND"] = "device"
            self.assertIn("example:1", run("-m", DEMO, "--plan", env=env).stdout)
            report = json.loads(self.doctor(env))
            rows = {row["topic"]: row for row in report["findings"]}
            self.assertIn("of no use", rows["cuda:0"]["text"])
            self.assertEqual(rows["cuda:1"]["health"], "ok")
            self.assertEqual(rows["CUDA"]["health"], "ok")

    @with_example
    def test_too_little_memory_says_what_would_fit(self):
        prompt = ("-m", DEMO, "-p", "x", "--device", "example", "--dtype", "float32")
        self.fails(NO_FIT, *prompt, "--gpu-memory-utilization", "0.01", says=["example:0", "--gpu-memory-utilization 0."])
        self.fails(NO_FIT, *prompt, "--kv-cache-memory-bytes", "4GiB", says=["example:0", "--kv-cache-memory-bytes"])
        done = run(*prompt, "--gpu-memory-utilization", "0.01", check=False, env=EXAMPLE)
        named = re.search("--gpu-memory-utilization ([0-9.]+)$", done.stderr.strip())
        self.assertEqual(run(*prompt, "--max-tokens", "1", "--gpu-memory-utilization", named[1], env=EXAMPLE).returncode, 0)

    @with_example
    def test_a_start_on_the_cpu_opens_no_module(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(MODULES / "libnanovllm_example.so", pathlib.Path(folder) / "libnanovllm_example.so")
            env = environment(NVLLM_BACKEND_PATH=folder, LD_DEBUG="files")
            err = run("-m", DEMO, "-p", "x", "--max-tokens", "1", "--device", "cpu", env=env).stderr
            self.assertIn("libnanovllm.so", err)
            self.assertNotIn("libnanovllm_", err)
            self.assertNotIn("libcuda", err)


if __name__ == "__main__":
    unittest.main()
