"""nvllm-inspect as a user runs it: known figures, plans held against measured memory, pipes, hostile files."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
import unittest

from programs import BIN, DEMO, RUN, SHARED, SOURCE, TIMEOUT_S, FolderTest, environment, needs_shared

INSPECT = str(BIN / "nvllm-inspect")
FAMILIES = SOURCE / "tests" / "fixtures" / "families"
ENCODERS = SOURCE / "tests" / "fixtures" / "embeddings"
USAGE, BAD_DATA, NO_INPUT, DOES_NOT_FIT = 64, 65, 66, 77
SANITIZED = any(word in str(BIN) for word in ("asan", "tsan", "dev"))

LLAMA_7B = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
            "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "float16", "vocab_size": 32000}
LLAMA_70B = dict(LLAMA_7B, hidden_size=8192, intermediate_size=28672, num_attention_heads=64, num_hidden_layers=80,
                 num_key_value_heads=8)

BERT_BASE = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
             "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 2,
             "layer_norm_eps": 1e-12, "hidden_act": "gelu", "vocab_size": 30522}


def inspect(*arguments, stdin="", check=True, env=None):
    """nvllm-inspect with these arguments; stdin is text or bytes. Output that is no UTF-8 shows as lone surrogates."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run([INSPECT, *map(str, arguments)], input=data, capture_output=True, timeout=TIMEOUT_S,
                          env=env or environment())
    done.stdout, done.stderr = (part.decode(errors="surrogateescape") for part in (done.stdout, done.stderr))
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, arguments))}\n{done.stderr}")
    return done


def inspect_json(*arguments, **options):
    return json.loads(inspect(*arguments, "--json", **options).stdout)


def inspect_lines(*arguments, **options):
    return [json.loads(line) for line in inspect(*arguments, **options).stdout.splitlines()]


class InspectTest(FolderTest):
    def model_with(self, config, name="model"):
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "config.json").write_text(json.dumps(config))
        return self.folder / name

    def fails(self, code, *arguments, says=(), stdin="", env=None):
        done = inspect(*arguments, stdin=stdin, check=False, env=env)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertIn("nvllm-inspect: error: ", done.stderr)
        for text in says:
            self.assertIn(text, done.stderr)
        return done


class Models(InspectTest):
    def test_every_family(self):
        for folder in sorted(path for path in FAMILIES.iterdir() if path.is_dir()):
            with self.subTest(folder.name):
                report = inspect_json("model", folder, "--tensors")
                self.assertEqual(report["schema"], "nvllm-inspect.model/1")
                self.assertTrue(report["supported"])
                weights = report["weights"]
                self.assertEqual(sum(part["parameters"] for part in weights["components"].values()), report["parameters"])
                self.assertEqual(sum(part["bytes"] for part in weights["dtypes"].values()), weights["bytes"])
                self.assertEqual(len(report["tensors"]), weights["tensors"])
                self.assertNotIn("other", weights["components"])
                self.assertEqual(report["parameters"] > 0, True)
                # The config alone implies the same parameters.
                alone = inspect_json("model", folder / "config.json")
                self.assertEqual(alone["weights"]["source"], "config")
                self.assertEqual(alone["parameters"], report["parameters"])

    def test_published_parameter_counts(self):
        report = inspect_json("model", self.model_with(LLAMA_7B))
        self.assertEqual(report["parameters"], 6738415616)
        self.assertEqual(report["weights"]["source"], "config")
        self.assertEqual(inspect_json("model", self.model_with(LLAMA_70B))["parameters"], 68976648192)

    def test_encoders(self):
        for name in ("bert", "roberta", "distilbert", "mpnet", "modernbert", "embeddinggemma"):
            with self.subTest(name):
                report = inspect_json("model", ENCODERS / name)
                self.assertTrue(report["supported"])
                self.assertEqual((report["config"]["encoder"], report["config"]["generates"]), (True, False))
                self.assertNotIn("other", report["weights"]["components"])
        # Published counts, less the pooler's 590,592 that no embedding goes through.
        self.assertEqual(inspect_json("model", self.model_with(BERT_BASE))["parameters"], 109482240 - 590592)
        roberta = dict(BERT_BASE, architectures=["RobertaModel"], model_type="roberta", vocab_size=50265,
                       max_position_embeddings=514, type_vocab_size=1, pad_token_id=1)
        report = inspect_json("model", self.model_with(roberta))
        self.assertEqual(report["parameters"], 124645632 - 590592)
        self.assertEqual(report["config"]["max_positions"], 512)
        self.assertIn("no text", inspect("model", self.model_with(BERT_BASE)).stdout)

    def test_text_fits_a_terminal(self):
        done = inspect("model", DEMO)
        self.assertIn("LlamaForCausalLM", done.stdout)
        self.assertIn("2,885,888", done.stdout)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines() if DEMO not in line), 80)

    def test_one_file(self):
        self.assertEqual(inspect_json("model", f"{DEMO}/model.safetensors")["weights"]["metadata"], {"format": "pt"})
        self.assertEqual(inspect_json("model", f"{DEMO}/tokenizer.json")["tokenizer"]["vocab_size"], 2048)

    def test_unsupported_architecture_names_known_ones(self):
        model = self.model_with(dict(LLAMA_7B, architectures=["NoSuchModel"], model_type="none"))
        report = inspect_json("model", model)
        self.assertFalse(report["supported"])
        self.assertIn("NoSuchModel", report["reason"])
        self.assertIn("LlamaForCausalLM", report["known_architectures"])
        self.assertAlmostEqual(report["parameters"] / 6738415616, 1.0, places=2)

    def test_quantized_model_is_described(self):
        section = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}
        report = inspect_json("model", self.model_with(dict(LLAMA_7B, quantization_config=section)))
        self.assertTrue(report["supported"])
        self.assertEqual(report["quantization"], {"method": "gptq", "bits": 4, "group_size": 128, "section": section,
                                                  "linears": {"native": 224, "widened": 0}})
        text = inspect("model", FAMILIES.parent / "quantized" / "w4a16").stdout
        self.assertIn("14 linears multiplied as they are stored, 0 widened", text)

    def test_hub_name(self):
        cache = self.folder / "cache"
        snapshot = cache / "models--org--name" / "snapshots" / "0123456789abcdef"
        shutil.copytree(FAMILIES / "llama", snapshot)
        (cache / "models--org--name" / "refs").mkdir()
        (cache / "models--org--name" / "refs" / "main").write_text("0123456789abcdef")
        report = inspect_json("model", "org/name", env=environment(HF_HUB_CACHE=str(cache)))
        self.assertEqual(report["architecture"], "LlamaForCausalLM")

    def test_list_of_the_cache(self):
        for name, source in (("org--runs", DEMO), ("org--not", None)):
            snapshot = self.folder / "hub" / f"models--{name}" / "snapshots" / "c0ffee"
            snapshot.parent.mkdir(parents=True)
            if source:
                snapshot.symlink_to(source)
            else:
                snapshot.mkdir()
                (snapshot / "model.gguf").write_bytes(b"GGUF")
            (snapshot.parent.parent / "refs").mkdir()
            (snapshot.parent.parent / "refs" / "main").write_text("c0ffee")
        env = environment(HF_HUB_CACHE=str(self.folder / "hub"))
        models = {model["name"]: model for model in json.loads(inspect("list", "--json", env=env).stdout)["models"]}
        self.assertEqual({name: model["runs"] for name, model in models.items()}, {"org/runs": True, "org/not": False})
        self.assertGreater(models["org/runs"]["bytes"], 1 << 20)
        self.assertIn("GGUF is not read", models["org/not"]["obstacle"])
        text = inspect("list", env=env).stdout
        self.assertIn("org/runs", text)
        self.assertIn("does not run", text)
        self.assertIn("hf download", inspect("list", "--download-dir", self.folder / "none").stdout)

    def test_what_is_typed_in_place_of_a_model(self):
        done = inspect("tokens", "Once upon a time", check=False)
        self.assertEqual(done.returncode, NO_INPUT)
        self.assertIn("texts come by standard input", done.stderr)
        done = inspect("model", "org/name", "--revision", "v1", check=False)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("org/name@REVISION", done.stderr)

    def test_nothing_there(self):
        self.fails(NO_INPUT, "model", "/no/such/folder", says=["/no/such/folder"])
        self.fails(NO_INPUT, "model", self.folder, says=["config.json"])

    def test_truncated_shard_is_named(self):
        shutil.copytree(FAMILIES / "llama", self.folder / "sharded")
        model = self.folder / "sharded"
        (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
        shutil.copy(DEMO + "/model.safetensors", model / "model-00002-of-00002.safetensors")
        names = [tensor["name"] for tensor in
                 inspect_json("model", model / "model-00001-of-00002.safetensors", "--tensors")["tensors"]]
        index = {"weight_map": dict({name: "model-00001-of-00002.safetensors" for name in names},
                                    **{"lm_head.weight": "model-00002-of-00002.safetensors"})}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        with (model / "model-00002-of-00002.safetensors").open("r+b") as file:
            file.truncate(100_000)
        for command in (("model",), ("plan", "-m")):
            self.fails(BAD_DATA, *command, model, says=["model-00002-of-00002.safetensors", "100000", "download it again"])
        (model / "model-00002-of-00002.safetensors").unlink()
        for command in (("model",), ("plan", "-m")):
            self.fails(NO_INPUT, *command, model, says=["model-00002-of-00002.safetensors"])

    @needs_shared("malformed/safetensors.jsonl")
    def test_hostile_safetensors(self):
        cases = [json.loads(line) for line in (SHARED / "malformed" / "safetensors.jsonl").read_text().splitlines()]
        for case in cases:
            path = self.folder / "case.safetensors"
            path.write_bytes(base64.b64decode(case["bytes_base64"]))
            done = inspect("model", path, "--tensors", check=False)
            allowed = {"accept": (0,), "reject": (BAD_DATA,), "either": (0, BAD_DATA)}[case["expect"]]
            self.assertIn(done.returncode, allowed, f"{case['name']}: {done.stderr}")
            if done.returncode != 0:
                self.one_clear_line(done, path, case["name"])

    @needs_shared("malformed/safetensors.jsonl")
    def test_hostile_weights_of_a_model(self):
        model = self.folder / "model"
        shutil.copytree(FAMILIES / "llama", model)
        for line in (SHARED / "malformed" / "safetensors.jsonl").read_text().splitlines():
            case = json.loads(line)
            (model / "model.safetensors").write_bytes(base64.b64decode(case["bytes_base64"]))
            # None of these files holds this model: no plan is made for it, and a good one is reported as what it is.
            done = inspect("plan", "-m", model, check=False)
            self.assertEqual(done.returncode, BAD_DATA, f"{case['name']}: {done.stderr}")
            self.one_clear_line(done, model, case["name"])
            done = inspect("model", model, "--json", check=False)
            if done.returncode == 0:
                self.assertFalse(json.loads(done.stdout)["supported"], case["name"])
            else:
                self.assertEqual(done.returncode, BAD_DATA, case["name"])
                self.one_clear_line(done, model, case["name"])

    def test_files_that_are_never_read(self):
        for name in ("model.gguf", "pytorch_model.bin"):
            (self.folder / name).write_bytes(b"GGUF")
            self.fails(BAD_DATA, "model", self.folder / name, says=[name, "safetensors"])

    @needs_shared("malformed/json.jsonl")
    def test_hostile_json(self):
        for line in (SHARED / "malformed" / "json.jsonl").read_text().splitlines():
            case = json.loads(line)
            for name, command in (("config.json", "model"), ("tokenizer.json", "model"), ("tokenizer.json", "tokens")):
                path = self.folder / name
                path.write_bytes(base64.b64decode(case["bytes_base64"]))
                # None of them is a config or a tokenizer, so even good JSON is refused.
                done = inspect(command, path, check=False)
                self.assertIn(done.returncode, (0, BAD_DATA) if name == "config.json" else (BAD_DATA,),
                              f"{case['name']} as {name}: {done.stderr}")
                if done.returncode != 0:
                    self.one_clear_line(done, path, case["name"])

    @needs_shared("malformed/utf8.jsonl")
    def test_hostile_utf8(self):
        cases = [json.loads(line) for line in (SHARED / "malformed" / "utf8.jsonl").read_text().splitlines()]
        for case in cases:
            data = base64.b64decode(case["bytes_base64"])
            path = self.folder / "tokenizer.json"
            path.write_bytes(data)
            done = inspect("tokens", path, check=False)
            self.assertEqual(done.returncode, BAD_DATA, case["name"])
            self.one_clear_line(done, path, case["name"])
            if b"\n" in data or b"\r" in data:
                continue
            # The same bytes as a line of text: answered, and the answer is JSON.
            answer, = inspect_lines("tokens", DEMO, "--input-format", "text", stdin=data + b"\n")
            self.assertEqual(len(answer["ids"]), len(answer["tokens"]))
            text, = inspect_lines("tokens", DEMO, "--decode", "--special", stdin=json.dumps(answer))
            self.assertEqual(text["text"], case["decoded_with_replacement"], case["name"])

    def one_clear_line(self, done, path, name):
        self.assertEqual(done.stderr.count("\n"), 1, f"{name}: {done.stderr}")
        self.assertIn(str(path), done.stderr, name)
        self.assertEqual(done.stdout, "", name)


class Plans(InspectTest):
    def test_published_bytes_per_token(self):
        for config, per_token in ((LLAMA_7B, 524288), (LLAMA_70B, 327680)):
            model = self.model_with(config)
            plan = inspect_json("plan", "-m", model, "--available-memory", "256GiB")
            self.assertEqual(plan["schema"], "nvllm-inspect.plan/1")
            self.assertTrue(plan["fits"])
            self.assertEqual(plan["kv_bytes_per_token"], per_token)
            self.assertEqual(sum(group["bytes_per_token"] for group in plan["kv_groups"]), per_token)
            self.assertEqual(plan["kv_dtype"], "float16")
            self.assertIn("no safetensors weights", " ".join(plan["notices"]))
            text = inspect("plan", "-m", model, "--available-memory", "256GiB").stdout
            self.assertIn(f"{per_token:,}", text)
            self.assertLessEqual(max(len(line) for line in text.splitlines() if str(model) not in line), 80)

    def test_quick(self):
        # Several runs: the best shows what the program needs, whatever else the machine does.
        model = self.model_with(LLAMA_70B)
        times = []
        for _ in range(5):
            start = time.monotonic()
            inspect("plan", "-m", model, "--available-memory", "256GiB")
            times.append(time.monotonic() - start)
        print(f"plan of Llama-2-70B: {min(times) * 1000:.0f} ms")

    def test_what_does_not_fit_names_values_that_do(self):
        model = self.model_with(LLAMA_7B)
        flags = ("plan", "-m", model, "--available-memory", "64GiB", "--kv-cache-memory-bytes", "1GiB")
        done = self.fails(DOES_NOT_FIT, *flags, "--max-model-len", "4096", "--json",
                          says=["--max-model-len 2048", "--kv-cache-memory-bytes 2147483648"])
        plan = json.loads(done.stdout)
        self.assertFalse(plan["fits"])
        self.assertEqual(plan["kv_cache_bytes"], 2 << 30)
        self.assertIn("2048", plan["shortage"])
        inspect(*flags, "--max-model-len", "2048")
        inspect(*flags[:-2], "--kv-cache-memory-bytes", "2147483648", "--max-model-len", "4096")
        self.fails(DOES_NOT_FIT, "plan", "-m", model, "--available-memory", "8GiB", says=["--kv-cache-memory-bytes"])
        self.fails(USAGE, "plan", "-m", model, "--max-model-len", "100000", says=["--max-model-len", "4096"])

    def test_options_matter(self):
        plan = inspect_json("plan", "-m", DEMO, "--block-size", "32", "--max-num-seqs", "4", "--dtype", "float32")
        self.assertEqual((plan["block_size"], plan["max_num_seqs"], plan["kv_dtype"]), (32, 4, "float32"))
        self.assertEqual(plan["kv_bytes_per_token"], 2 * inspect_json("plan", "-m", DEMO)["kv_bytes_per_token"])

    def test_an_encoder_needs_the_blocks_of_one_step(self):
        model = self.model_with(BERT_BASE)
        plan = inspect_json("plan", "-m", model, "--available-memory", "8GiB")
        self.assertEqual(plan["max_model_len"], 512)
        self.assertEqual(plan["kv_bytes_per_token"], 2 * 12 * 768 * 4)
        # One prompt of 512 tokens, or many short ones, each with a last block of its own.
        self.assertEqual((plan["kv_tokens"], plan["max_concurrency"]), (512 + 128 * 16, 1.0))
        self.assertEqual(plan["advice"], ["--max-num-batched-tokens 65536 lets 128 prompts of 512 tokens share a step"])
        larger = inspect_json("plan", "-m", model, "--available-memory", "8GiB", "--max-num-batched-tokens", "4096")
        self.assertEqual((larger["kv_tokens"], larger["max_concurrency"]), (4096 + 128 * 16, 8.0))
        self.fails(USAGE, "plan", "-m", model, "--max-model-len", "513", says=["512 positions at most"])

    def test_same_as_run(self):
        plan = inspect_json("plan", "-m", DEMO, "--max-num-seqs", "16")
        done = subprocess.run([RUN, "-m", DEMO, "--max-num-seqs", "16", "--plan"], capture_output=True, text=True,
                              timeout=TIMEOUT_S, env=environment())
        self.assertIn(f"{plan['kv_tokens']} tokens of {plan['kv_bytes_per_token']} B", done.stdout)


def decoder(architecture, model_type, **sizes):
    return dict({"architectures": [architecture], "model_type": model_type, "max_position_embeddings": 2048,
                 "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5}, **sizes)


# Shapes whose weights, cache and scratch are some hundred MiB, so that 3 % is more than noise.
SHAPES = {
    "heads each of their own (Llama)": decoder(
        "LlamaForCausalLM", "llama", vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
        num_attention_heads=16, num_key_value_heads=16, tie_word_embeddings=False),
    "grouped heads, tied, large vocabulary (Qwen3)": decoder(
        "Qwen3ForCausalLM", "qwen3", vocab_size=98304, hidden_size=1024, intermediate_size=2048, num_hidden_layers=6,
        num_attention_heads=16, num_key_value_heads=4, head_dim=128, tie_word_embeddings=True),
    "windows, two cache groups (Gemma 3)": decoder(
        "Gemma3ForCausalLM", "gemma3_text", vocab_size=131072, hidden_size=768, intermediate_size=2048,
        num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=4, head_dim=256, sliding_window=128,
        hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=256),
    "experts (Mixtral)": decoder(
        "MixtralForCausalLM", "mixtral", vocab_size=16384, hidden_size=768, intermediate_size=2048, num_hidden_layers=4,
        num_attention_heads=12, num_key_value_heads=4, num_local_experts=8, num_experts_per_tok=2,
        tie_word_embeddings=False),
}
# For what the program takes besides: little to compute, but more memory than this interpreter, whose peak a child inherits.
SMALL = decoder("LlamaForCausalLM", "llama", vocab_size=65536, hidden_size=256, intermediate_size=512, num_hidden_layers=1,
                num_attention_heads=2, num_key_value_heads=2)


@unittest.skipIf(SANITIZED, "sanitizers take memory of their own")
class PlanAgainstMemory(InspectTest):
    FLAGS = ("--load-format", "dummy", "--max-num-seqs", "8", "--max-model-len", "512", "--max-num-batched-tokens", "512",
             "--no-enable-prefix-caching")

    def peak_bytes(self, model, *flags):
        """Of nvllm-run, with eight sequences that fill the cache and every step that a prompt can fill."""
        prompt = [(place * 7) % 250 + 1 for place in range(480)]
        lines = "".join(json.dumps({"prompt_token_ids": [index + 1] + prompt[1:], "max_tokens": 32, "ignore_eos": True,
                                    "temperature": 0}) + "\n" for index in range(8))
        requests = self.folder / "requests.jsonl"
        requests.write_text(lines)
        with requests.open() as stdin:
            process = subprocess.Popen([RUN, "-m", str(model), *self.FLAGS, *flags, "--input-format", "jsonl",
                                        "--output-format", "jsonl"], stdin=stdin, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, env=environment())
            with process.stdout:
                answers = process.stdout.read().splitlines()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(answers), 8)
        return usage.ru_maxrss * 1024

    def test_within_three_percent(self):
        base_flags = ("--kv-cache-memory-bytes", "8MiB")
        base_model = self.model_with(SMALL, "small")
        base = self.peak_bytes(base_model, *base_flags)
        base -= inspect_json("plan", "-m", base_model, *self.FLAGS, *base_flags)["total_bytes"]
        for index, (name, config) in enumerate(SHAPES.items()):
            with self.subTest(name):
                model = self.model_with(config, f"shape{index}")
                flags = ("--kv-cache-memory-bytes", "128MiB")
                plan = inspect_json("plan", "-m", model, *self.FLAGS, *flags)
                measured = self.peak_bytes(model, *flags) - base
                print(f"{name}: planned {plan['total_bytes'] / 2**20:.1f} MiB (weights {plan['weight_bytes'] / 2**20:.1f}, "
                      f"cache {plan['kv_cache_bytes'] / 2**20:.1f}, scratch {plan['scratch_bytes'] / 2**20:.1f}), "
                      f"measured {measured / 2**20:.1f} MiB, {100 * (measured / plan['total_bytes'] - 1):+.1f} %")
                self.assertLess(abs(measured - plan["total_bytes"]), 0.03 * plan["total_bytes"])


class Tokens(InspectTest):
    MIXED = ["Once upon a time, there was a dog.", "  two  spaces ", "caf\u00e9 \u4f60\u597d \U0001f600", "{not json}",
             '{"text"', "<|user|>", "tab\there", "", "x" * 500]

    def test_round_trip(self):
        for arguments in ((), ("--add-special-tokens",)):
            ids = inspect("tokens", "-m", DEMO, *arguments, stdin="\n".join(self.MIXED) + "\n").stdout
            back = inspect_lines("tokens", "-m", DEMO, "--decode", stdin=ids)
            # Special tokens are left out of a text unless they are asked for.
            self.assertEqual([answer["text"] for answer in back],
                             ["" if text == "<|user|>" else text for text in self.MIXED])
        ids = inspect("tokens", "-m", DEMO, stdin="\n".join(self.MIXED) + "\n").stdout
        back = inspect_lines("tokens", "-m", DEMO, "--decode", "--special", stdin=ids)
        self.assertEqual([answer["text"] for answer in back], self.MIXED)

    def test_special(self):
        plain, = inspect_lines("tokens", DEMO, stdin="Once\n")
        special, = inspect_lines("tokens", DEMO, "--special", stdin="Once\n")
        self.assertEqual(special["ids"][1:], plain["ids"])
        self.assertEqual(special["tokens"][0], "<|begin|>")
        self.assertEqual(inspect_lines("tokens", DEMO, "--special", "--no-add-special-tokens", stdin="Once\n"), [plain])

    def test_bad_lines_fail_alone(self):
        lines = ['{"text": "Once"}', "{broken", '{"words": 1}', "17", '{"text": "Once"}']
        done = inspect("tokens", DEMO, "--input-format", "jsonl", stdin="\n".join(lines), check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual(["error" in answer for answer in answers], [False, True, True, True, False])
        done = inspect("tokens", DEMO, "--decode", stdin='[1]\n[999999]\n{"ids": "x"}\n[2]\n', check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual(["error" in json.loads(line) for line in done.stdout.splitlines()], [False, True, True, False])

    def test_answers_come_at_once(self):
        with subprocess.Popen([INSPECT, "tokens", DEMO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=environment()) as process:
            for text in ("Once", "upon"):
                process.stdin.write(text + "\n")
                process.stdin.flush()
                self.assertTrue(select.select([process.stdout], [], [], TIMEOUT_S)[0])
                self.assertTrue(json.loads(process.stdout.readline())["ids"])
            process.stdin.close()
            self.assertEqual(process.wait(TIMEOUT_S), 0)

    def test_closed_output_ends_quietly(self):
        done = subprocess.run(["bash", "-c", f'set -o pipefail; yes Once | head -100000 | "{INSPECT}" tokens "{DEMO}" | head -1'],
                              capture_output=True, text=True, timeout=TIMEOUT_S, env=environment())
        self.assertEqual(done.stderr, "")

    @needs_shared("tokenizers/mistral-v1")
    def test_one_tokenizer_file(self):
        for name in ("llama2/tokenizer.model", "gpt2/tokenizer.json", "qwen2/tokenizer.json", "o200k_base/o200k_base.tiktoken"):
            path = SHARED / "tokenizers" / name
            ids = inspect("tokens", path, stdin="Hello, w\u00f6rld\n").stdout
            self.assertEqual(inspect_lines("tokens", path, "--decode", stdin=ids)[0]["text"], "Hello, w\u00f6rld", name)
            self.assertGreater(inspect_json("model", path)["tokenizer"]["vocab_size"], 30000)

    def test_no_tokenizer(self):
        self.fails(NO_INPUT, "tokens", FAMILIES / "llama", says=["tokenizer"])


class Templates(InspectTest):
    CHAT = '{"messages": [{"role": "user", "content": "Hi"}]}'

    def test_model(self):
        answer, = inspect_lines("template", "-m", DEMO, stdin=self.CHAT)
        self.assertTrue(answer["text"].startswith("<|begin|><|user|>\nHi"))
        # The prompt that an engine computes for the same conversation.
        done = subprocess.run([RUN, "-m", DEMO, "-n", "1", "--input-format", "jsonl", "--output-format", "jsonl"],
                              input=self.CHAT, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment())
        ids, = inspect_lines("tokens", DEMO, stdin=json.dumps(answer))
        self.assertEqual(json.loads(done.stdout)["prompt_token_ids"], ids["ids"])

    def test_file_and_time(self):
        path = self.folder / "t.jinja"
        path.write_text("{{ strftime_now('%Y/%m/%d %H') }} {{ messages[0].content }}{{ bos_token }}")
        arguments = ("--template", path, "--now", "2026-01-02 03:04:05")
        self.assertEqual(inspect_lines("template", *arguments, stdin=self.CHAT), [{"text": "2026/01/02 03 Hi"}])
        self.assertEqual(inspect_lines("template", "-m", DEMO, *arguments, stdin=self.CHAT),
                         [{"text": "2026/01/02 03 Hi<|begin|>"}])
        self.fails(USAGE, "template", "--template", path, "--now", "soon", says=["--now", "soon"])

    def test_faults_are_lines(self):
        path = self.folder / "t.jinja"
        path.write_text("{% if stop %}{{ raise_exception('no more') }}{% endif %}ok")
        done = inspect("template", "--template", path, stdin='{"stop": 1}\n{}\n[]\n{\n{}\n', check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual(["error" in answer for answer in answers], [True, False, True, True, False])
        self.assertIn("no more", answers[0]["error"]["message"])

    def test_broken_template_is_named(self):
        path = self.folder / "broken.jinja"
        path.write_text("{% if %}")
        self.fails(BAD_DATA, "template", "--template", path, says=["broken.jinja"])
        self.fails(NO_INPUT, "template", "--template", self.folder / "none.jinja", says=["none.jinja"])

    def test_named_template(self):
        shutil.copytree(DEMO, self.folder / "demo")
        (self.folder / "demo" / "additional_chat_templates").mkdir()
        (self.folder / "demo" / "additional_chat_templates" / "tool_use.jinja").write_text("tools: {{ tools | length }}")
        (self.folder / "demo" / "chat_template.jinja").write_text("default")
        named = ("template", "-m", self.folder / "demo", "--template-name")
        self.assertEqual(inspect_lines(*named, "tool_use", stdin='{"tools": [1, 2]}'), [{"text": "tools: 2"}])
        self.fails(BAD_DATA, *named, "rag", says=["rag", "default", "tool_use"])

    @needs_shared("chat/renderings.jsonl")
    def test_published_templates(self):
        rows = [json.loads(line) for line in (SHARED / "chat" / "renderings.jsonl").read_text().splitlines()]
        for name in sorted({row["template"] for row in rows}):
            cases = [row for row in rows if row["template"] == name]
            done = inspect("template", "--template", SHARED / "chat" / "templates" / name, "--now", "2026-01-02 03:04:05",
                           stdin="".join(json.dumps(row["context"]) + "\n" for row in cases), check=False)
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(answers), len(cases), f"{name}: {done.stderr}")
            for row, answer in zip(cases, answers):
                if "output" in row:
                    self.assertEqual(answer.get("text"), row["output"], f"{name}: {row['case']}")
                else:
                    self.assertIn("error", answer, f"{name}: {row['case']}")


class Grammars(InspectTest):
    SCHEMA = '{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}'

    def test_texts(self):
        self.assertIn("accepted", inspect("grammar", "--json-schema", self.SCHEMA, "--text", '{"age": 7}').stdout)
        done = inspect("grammar", "--json-schema", self.SCHEMA, "--text", '{"age": "7"}', check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertIn("refused at byte 8", done.stdout)
        unfinished = inspect("grammar", "--regex", "[0-9]+-x", "--json", stdin="12\n", check=False)
        self.assertEqual(unfinished.returncode, BAD_DATA)
        found = json.loads(unfinished.stdout)
        self.assertEqual((found["refused"], found["bytes"], found["may_end"]), (False, 2, False))
        self.assertEqual(bytes(found["allowed_bytes"]), b"-0123456789")

    def test_files_and_kinds(self):
        path = self.folder / "list.gbnf"
        path.write_text('root ::= item ("," item)*  # one or more\nitem ::= [a-z]+\n')
        inspect("grammar", "--grammar", path, "--text", "a,bc")
        inspect("grammar", "--choice", '["yes", "no"]', "--text", "no")
        inspect("grammar", "--json-object", stdin='{"a": [1, null]}\n')
        inspect("grammar", "--structural-tag", '{"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}',
                "--text", "ab")

    def test_what_is_refused(self):
        self.fails(BAD_DATA, "grammar", "--json-schema", '{"properties": {"a": {"uniqueItems": true}}}',
                   says=["#/properties/a", "uniqueItems"])
        self.fails(USAGE, "grammar", says=["--json-schema"])
        self.fails(NO_INPUT, "grammar", "--grammar", "nothing.gbnf", says=["nothing.gbnf"])


class DraftHeads(InspectTest):
    """A head that proposes tokens is described with what it needs of its target, and is no model to run."""

    HEADS = SOURCE / "tests" / "fixtures" / "drafts"

    def test_described(self):
        report = inspect_json("model", self.HEADS / "eagle3_speculators")
        self.assertEqual((report["kind"], report["supported"]), ("draft head", False))
        self.assertEqual(report["draft_head"], {
            "method": "eagle3", "layout": "EAGLE-3 in the speculators format", "draft_vocab_size": 48, "target_vocab_size": 128,
            "target_hidden_size": 64, "num_aux_hidden_states": 3, "aux_layer_ids": [0, 1, 2], "own_embedding": False,
            "own_output_matrix": True, "target": "org/target"})
        text = " ".join(inspect("model", self.HEADS / "eagle3_norms").stdout.split())
        for part in ("eagle3 (EAGLE-3)", "at layers 0, 2;", "2 states of 64 values fused to 24", "40 of the target's 128 tokens",
                     "hidden size 64, vocabulary 128"):
            self.assertIn(part, text)
        text = " ".join(inspect("model", self.HEADS / "eagle_bias").stdout.split())
        self.assertIn("the target's last state, behind its final norm", text)
        self.assertNotIn("draft_head", inspect_json("model", DEMO))

    def test_a_model_with_a_layer_for_drafts(self):
        for name, layout in (("mtp_mimo", "MiMo"), ("mtp_qwen", "Qwen"), ("mtp_deepseek", "DeepSeek")):
            report = inspect_json("model", SOURCE / "tests" / "fixtures" / "drafts" / name)
            self.assertEqual(report["next_token_layer"], f"MTP in {layout}'s layout")
        self.assertNotIn("next_token_layer", inspect_json("model", DEMO))

    def test_not_run(self):
        for name in ("eagle_bias", "eagle3_norms", "eagle3_speculators"):
            done = subprocess.run([RUN, "-m", str(self.HEADS / name), "-p", "a"], capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env=environment())
            self.assertEqual(done.returncode, BAD_DATA, done.stderr)
            for part in ("holds a draft head (EAGLE", "is no model to run by itself; give the target's folder"):
                self.assertIn(part, done.stderr)

    def test_layouts_that_are_not_read(self):
        head = self.folder / "head"
        shutil.copytree(self.HEADS / "eagle_bias", head)
        config = json.loads((head / "config.json").read_text())
        (head / "config.json").write_text(json.dumps(config | {"medusa_num_heads": 3}))
        report = inspect_json("model", head)
        self.assertIn("holds a draft head (Medusa)", report["reason"])
        self.assertIn("draft heads of this layout are not read", report["reason"])


class Program(InspectTest):
    def test_commands(self):
        self.fails(USAGE, says=["model", "plan", "tokens", "template"])
        self.fails(USAGE, "modle", says=["did you mean model"])
        self.assertIn("template", inspect("--help").stdout)
        for command in ("model", "plan", "tokens", "template"):
            text = inspect(command, "--help").stdout
            self.assertIn("json  ", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.fails(USAGE, "plan", "--max-modle-len", "3", says=["--max-model-len"])


if __name__ == "__main__":
    unittest.main()
