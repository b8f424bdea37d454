"""Bad input: a sentence that says what, where and what to do, the documented exit code, and nothing else."""

import base64
import json
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

from programs import DEMO, RUN, SHARED, SOURCE, TIMEOUT_S, environment, needs_shared, run, run_jsonl

USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE, DOES_NOT_FIT, BAD_CONFIG = 64, 65, 66, 69, 77, 78


def run_jsonl_line(request):
    done = run("-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", stdin=json.dumps(request) + "\n", check=False)
    return json.loads(done.stdout)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = pathlib.Path(self.folder.name) / "model"
        shutil.copytree(DEMO, self.model)

    def fails(self, code, *arguments, says=(), stdin="", env=None):
        done = run(*arguments, stdin=stdin, check=False, env=env)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertIn("nvllm-run: error: ", done.stderr)
        self.assertEqual(done.stdout, "")
        for text in says:
            self.assertIn(text, done.stderr)

    def test_missing_model_names_places(self):
        self.fails(NO_INPUT, "-m", "/no/such/folder", "-p", "x", says=["/no/such/folder"])
        with tempfile.TemporaryDirectory() as cache:
            self.fails(NO_INPUT, "-m", "nobody/nothing", "-p", "x", says=["nobody/nothing", cache],
                       env=environment(HF_HUB_CACHE=cache))

    def test_a_missing_model_says_how_it_is_fetched_and_what_there_is(self):
        cache = pathlib.Path(self.folder.name) / "hub"
        snapshot = cache / "models--some--demo" / "snapshots" / "abc"
        snapshot.parent.mkdir(parents=True)
        snapshot.symlink_to(DEMO)
        (cache / "models--some--demo" / "refs").mkdir()
        (cache / "models--some--demo" / "refs" / "main").write_text("abc")
        env = environment(HUGGINGFACE_HUB_CACHE=str(cache))
        self.fails(NO_INPUT, "-m", "some/dem", "-p", "x", says=["'hf download some/dem'", "the cache has some/demo"], env=env)
        run("-m", "some/demo", "-p", "x", "-n", "1", env=env)
        run("-m", "some/demo", "--revision", "main", "-p", "x", "-n", "1", env=env)
        run("-m", "some/demo", "--download-dir", cache, "-p", "x", "-n", "1")
        self.fails(NO_INPUT, "-m", "some/demo", "--revision", "v2", "-p", "x", says=["--revision v2"], env=env)

    def test_models_of_other_kinds_are_named(self):
        folder = pathlib.Path(self.folder.name)
        (folder / "gguf").mkdir()
        (folder / "gguf" / "model-Q8_0.gguf").write_bytes(b"GGUF" + bytes(60))
        (folder / "lora").mkdir()
        (folder / "lora" / "adapter_config.json").write_text("{}")
        (folder / "empty").mkdir()
        (self.model / "model.safetensors").rename(self.model / "model.onnx")
        for code, name, says in (
                (NO_INPUT, folder / "gguf", "GGUF is not read"), (BAD_DATA, folder / "gguf" / "model-Q8_0.gguf", "GGUF is not read"),
                (NO_INPUT, folder / "lora", "LoRA adapter"), (NO_INPUT, folder / "empty", "is empty"),
                (NO_INPUT, self.model, "ONNX is not read"), (NO_INPUT, "mistral:7b", "Ollama"),
                (NO_INPUT, "hf.co/org/name:Q4_K_M", "hf download org/name"), (USAGE, "", "--model: is empty")):
            self.fails(code, "-m", name, "-p", "x", says=[says])

    def test_two_models_are_a_mistake(self):
        self.fails(USAGE, "-m", DEMO, "-m", self.model, "-p", "x", says=[DEMO, str(self.model)])

    def test_flags_of_llama_cpp_have_an_answer(self):
        for arguments, says in ((("-ngl", "99"), "--device"), (("--lora", "x.gguf"), "adapters"), (("-e",), "bash")):
            self.fails(USAGE, "-m", DEMO, "-p", "x", *arguments, says=[arguments[0], says])
        self.fails(NO_INPUT, "-m", DEMO, "-p", "x", "-md", "small", says=["small"])
        run("-m", DEMO, "-p", "Once", "-n", "-1", "-s", "-1", "-t", "-1", "--top-k", "-1", "-c", "16")
        done = run("-m", DEMO, "-p", "Once", "-n", "3", "-c", "64", "-i", "-fa", "on", "--mlock", "--no-mmap", "-ub", "32",
                   "-np", "2", "-ctk", "f16", "--jinja")
        self.assertEqual([line.split()[1] for line in done.stderr.splitlines() if "does nothing here" in line],
                         ["-i", "-fa", "--mlock", "--no-mmap", "--jinja"])
        self.fails(BAD_DATA, "-m", DEMO, "-p", "Once upon a time " * 30, "-c", "64", says=["the context of 64"])

    def test_several_prompts_in_one_request(self):
        answer = run_jsonl_line({"prompt": ["a", "b"]})
        self.assertIn("one text or one list of token ids", answer["error"]["message"])

    def test_a_bad_line_is_named_by_its_number(self):
        done = run("-m", DEMO, "--input-format", "jsonl", "-n", "2", stdin='{"prompt": "a"}\n\n\n{broken\n', check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertIn("nvllm-run: error: line 4: ", done.stderr)

    def test_a_prompt_far_too_long_is_refused_by_its_beginning(self):
        file = pathlib.Path(self.folder.name) / "long.txt"
        file.write_text("The dog liked to play with a red ball. " * 100000)
        self.fails(BAD_DATA, "-m", DEMO, "-f", file, says=["of which the first 65536 are", "the context has 2048"])

    def test_a_step_log_that_cannot_be_written_in_full(self):
        done = run("-m", DEMO, "-p", "Once", "-n", "4", "--step-log", "/dev/full", check=False)
        self.assertEqual(done.returncode, 74)
        self.assertIn("/dev/full: cannot be written in full", done.stderr)

    def test_directory_without_config(self):
        (self.model / "config.json").unlink()
        self.fails(NO_INPUT, "-m", self.model, "-p", "x", says=["config.json"])

    def test_truncated_weights(self):
        weights = self.model / "model.safetensors"
        size = weights.stat().st_size
        with weights.open("r+b") as file:
            file.truncate(size - 1000)
        self.fails(BAD_DATA, "-m", self.model, "-p", "x", says=["model.safetensors", str(size - 1000), "download it again"])

    def test_empty_weights(self):
        (self.model / "model.safetensors").write_bytes(b"")
        self.fails(BAD_DATA, "-m", self.model, "-p", "x", says=["model.safetensors"])

    def test_absurd_config(self):
        config = json.loads((self.model / "config.json").read_text())
        for key, value in (("hidden_size", 10**12), ("num_hidden_layers", 10**9), ("vocab_size", -1),
                           ("num_attention_heads", 0), ("hidden_size", "many"), ("max_position_embeddings", 2**62)):
            changed = dict(config, **{key: value})
            (self.model / "config.json").write_text(json.dumps(changed))
            self.fails(BAD_DATA, "-m", self.model, "-p", "x", says=["config.json", key])

    def test_broken_json(self):
        for text in ("", "{", "[]", '{"architectures": 3}', "[" * 100000):
            (self.model / "config.json").write_text(text)
            self.fails(BAD_DATA, "-m", self.model, "-p", "x", says=["config.json"])

    def test_unknown_architecture_names_known_ones(self):
        config = json.loads((self.model / "config.json").read_text())
        config["architectures"] = ["NoSuchModel"]
        (self.model / "config.json").write_text(json.dumps(config))
        self.fails(BAD_DATA, "-m", self.model, "-p", "x", says=["NoSuchModel", "LlamaForCausalLM"])

    def test_an_encoder_generates_no_text(self):
        for name in ("bert", "roberta", "distilbert"):
            encoder = SOURCE / "tests" / "fixtures" / "embeddings" / name
            self.fails(USAGE, "-m", encoder, "-p", "x", says=[str(encoder), "makes embeddings and generates no text"])

    def test_prompt_longer_than_context(self):
        self.fails(BAD_DATA, "-m", DEMO, "--max-model-len", "64", "-p", "word " * 500, says=["64"])

    def test_empty_prompt_ids(self):
        self.fails(USAGE, "-m", DEMO, "--prompt-ids", "1,x", says=["--prompt-ids"])
        self.fails(BAD_DATA, "-m", DEMO, "--prompt-ids", "1,99999", says=["99999"])

    def test_wrong_flags(self):
        self.fails(USAGE, "--max-tokenz", "3", says=["--max-tokenz", "--max-tokens"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--max-num-seqs", "0", says=["--max-num-seqs"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--temperature", "hot", says=["--temperature", "hot"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--temperature", "-1", says=["temperature"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--top-p", "0", says=["--top-p", "above 0 and at most 1"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--samplers", "mirostat", says=["--samplers", "typical_p"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--logit-bias", "5", says=["--logit-bias", "ID+BIAS"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--dtype", "int3", says=["--dtype", "bfloat16"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--output-format", "xml", says=["jsonl"])
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--max-model-len", "1000000", says=["--max-model-len", "2048"])

    def test_system_prompt_needs_a_chat(self):
        self.fails(USAGE, "-m", DEMO, "-p", "x", "--system-prompt", "be kind", says=["--system-prompt"])

    def test_missing_prompt_file(self):
        self.fails(NO_INPUT, "-m", DEMO, "-p", "Once", "-f", "/no/such/prompt.txt", says=["/no/such/prompt.txt"])
        self.fails(NO_INPUT, "-m", DEMO, "-f", "/no/such/prompt.txt", says=["/no/such/prompt.txt"])

    def test_wrong_settings(self):
        self.fails(BAD_CONFIG, "-m", DEMO, "-p", "x", says=["NVLLM_MAX_NUM_SEQS"], env=environment(NVLLM_MAX_NUM_SEQS="many"))
        config = pathlib.Path(self.folder.name) / "settings.yaml"
        config.write_text("max-num-seqs: 4\nmax-num-sequences: 5\n")
        self.fails(BAD_CONFIG, "-m", DEMO, "-p", "x", "--config", config, says=["settings.yaml:2", "max-num-sequences"])

    def test_no_such_device(self):
        self.fails(UNAVAILABLE, "-m", DEMO, "-p", "x", "--device", "cuda:99", says=["cuda:99"])

    def test_too_little_memory_names_what_fits(self):
        self.fails(DOES_NOT_FIT, "-m", DEMO, "-p", "x", "--kv-cache-memory-bytes", "512K", "--max-model-len", "2048",
                   says=["--max-model-len", "--kv-cache-memory-bytes"])

    def test_one_bad_line_leaves_the_others(self):
        lines = ['{"prompt": "Once", "max_tokens": 2}', "{broken", '{"prompt": "Once", "temprature": 1}',
                 '{"prompt": ""}', '{"prompt": "Once", "max_tokens": 2, "top_p": 7}', '{"prompt": "Once", "max_tokens": 2}']
        done = run("-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", stdin="\n".join(lines), check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual([answer["index"] for answer in answers], list(range(6)))
        self.assertEqual([index for index, answer in enumerate(answers) if "error" in answer], [1, 2, 4])
        self.assertIn("temperature", answers[2]["error"]["message"])

    @needs_shared("malformed/safetensors.jsonl")
    def test_hostile_safetensors(self):
        cases = [json.loads(line) for line in (SHARED / "malformed" / "safetensors.jsonl").read_text().splitlines()]
        weights = self.model / "model.safetensors"
        refused = 0
        for case in cases:
            weights.write_bytes(base64.b64decode(case["bytes_base64"]))
            done = run("-m", self.model, "-p", "x", "-n", "1", check=False)
            # None of these files holds this model, so even a good one is refused, by the name of a missing tensor.
            self.assertEqual(done.returncode, BAD_DATA, f"{case['name']}: {done.stderr}")
            self.assertIn(str(self.model), done.stderr, case["name"])
            refused += 1
        print(f"hostile safetensors refused: {refused} of {len(cases)}")

    @unittest.skipIf("asan" in RUN or "dev" in RUN, "the address space of sanitizers is larger than any bound")
    def test_hostile_sizes_take_no_memory(self):
        weights = self.model / "model.safetensors"
        weights.write_bytes((2**62).to_bytes(8, "little") + b"{" * 100)
        limit = 2 << 30
        done = subprocess.run([RUN, "-m", str(self.model), "-p", "x"], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=environment(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
        self.assertEqual(done.returncode, BAD_DATA, done.stderr)


if __name__ == "__main__":
    unittest.main()
