"""LoRA adapters: each answer is that of merged weights, whatever else is in the batch and wherever the adapter was."""

import json
import math
import os
import shutil
import subprocess
import unittest

from adapter_testing import (PROMPT, SOME_FAMILIES, Adapter, compare_with_peft, is_in_out, linears_of, logprobs, merged, modules, peft_cases,
                             request)
from family_testing import FAMILIES
from programs import BIN, MODULES, SHARED, SOURCE, FolderTest, environment, needs_shared, run, run_jsonl, wait_until
from serve_testing import Server


def essence(answers):
    return [(answer["token_ids"], answer["logprobs"]) for answer in answers]


class Families(FolderTest):
    def test_answers_are_those_of_merged_weights(self):
        names = sorted(path.name for path in FAMILIES.iterdir() if path.is_dir()) if not os.environ.get("NVLLM_SANITIZED") else SOME_FAMILIES
        print(f"{len(names)} families")
        for name in names:
            with self.subTest(family=name):
                self.compare(FAMILIES / name)

    def compare(self, model):
        adapter = Adapter(linears_of(model), seed=3, size=0.3)
        folder = adapter.write(self.folder / f"{model.name}-adapter")
        ours, base = run_jsonl([request("a"), request(None)], "--dtype", "float32", *modules({"a": folder}), model=model)
        other = merged(model, adapter, self.folder / f"{model.name}-merged", is_in_out)
        line = request(None)
        del line["adapter"]
        expected, = run_jsonl([line], "--dtype", "float32", model=other)
        self.assertEqual(ours["token_ids"], expected["token_ids"])
        self.assertNotEqual(essence([ours]), essence([base]))
        for one, two in zip(logprobs(ours), logprobs(expected)):
            self.assertTrue(math.isclose(one, two, abs_tol=1e-4), f"{one} for {two}")


class Batches(FolderTest):
    """32 adapters of several ranks and linears in one batch."""

    def setUp(self):
        super().setUp()
        self.model = FAMILIES / "llama"
        linears = linears_of(self.model)
        names = sorted(linears)
        self.adapters = {}
        for index in range(32):
            chosen = {name: linears[name] for name in names[index % 3::1 + index % 4]}
            adapter = Adapter(chosen, rank=(4, 8, 16, 64)[index % 4], seed=index)
            self.adapters[f"a{index}"] = adapter.write(self.folder / f"a{index}")
        wanted = [None if index % 9 == 8 else f"a{index % 32}" for index in range(64)]
        self.requests = [request(name, PROMPT[:3 + index % 7] * (1 + index % 4), max_tokens=6 + index % 9,
                                 temperature=0.0 if index % 3 else 0.8, seed=index) for index, name in enumerate(wanted)]

    def answers(self, *options, max_loras=32, requests=None):
        return run_jsonl(requests or self.requests, "--max-loras", max_loras, *options, *modules(self.adapters), model=self.model)

    def test_no_bit_depends_on_what_is_beside(self):
        together = self.answers()
        alone = self.answers("--max-num-seqs", 1, max_loras=1)
        self.assertEqual(essence(together), essence(alone))
        self.assertGreater(len({tuple(answer["token_ids"]) for answer in together}), 32)

    def test_speed_features_change_nothing(self):
        expected = essence(self.answers())
        for options in (("--no-enable-prefix-caching",), ("--max-num-batched-tokens", 16, "--max-num-seqs", 8),
                        ("--max-blocks", 24, "--preemption-mode", "swap", "--swap-space", "4MiB"),
                        ("--max-blocks", 24, "--preemption-mode", "recompute"), ("--isolation", "process"),
                        ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'), ("--max-loras", 3),
                        ("--max-loras", 2, "--max-cpu-loras", 3), ("--data-parallel-size", 2)):
            with self.subTest(options=options):
                self.assertEqual(essence(self.answers(*options)), expected)

    def test_ranks_compute_the_same(self):
        expected = self.answers("--dtype", "float32")
        for options in (("--tensor-parallel-size", 2), ("--pipeline-parallel-size", 2)):
            with self.subTest(options=options):
                answers = self.answers("--dtype", "float32", *options)
                self.assertEqual([answer["token_ids"] for answer in answers], [answer["token_ids"] for answer in expected])
                for one, two in zip(answers, expected):
                    for left, right in zip(logprobs(one), logprobs(two)):
                        self.assertTrue(math.isclose(left, right, abs_tol=1e-4))

    def test_prompts_of_other_adapters_are_not_found_in_the_cache(self):
        prompt = PROMPT * 6
        requests = [request(name, prompt) for name in ("a0", "a1", None, "a0", "a1", None)]
        together = self.answers(requests=requests)
        alone = [self.answers(requests=[one])[0] for one in requests[:3]]
        self.assertEqual(essence(together), essence(alone + alone))


@unittest.skipUnless((MODULES / "libnanovllm_cuda_emulated.so").exists(), "this build has no emulated kernels")
class Launches(FolderTest):
    """On a device: two kernels for a linear, however many adapters and ranks there are."""

    LINEARS = 4 * 2 + 1  # of two layers q, k and v together, o, gate and up together, and down; and the head

    def run_on_device(self, made):
        """How many steps there were, kernels, and kernels of adapters; and the answers."""
        report, log = self.folder / "launches", self.folder / "steps"
        env = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EMULATED_LAUNCHES=str(report))
        answers = run_jsonl(made, "--device", "cuda_emulated", "--step-log", log, *modules(self.adapters), model=FAMILIES / "llama", env=env)
        counts = [(int(line.split()[0]), line.split()[1]) for line in report.read_text().splitlines()]
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        # While an adapter is loaded there are steps that compute nothing.
        return sum(step["num_prefill_tokens"] + step["num_decode_tokens"] > 0 for step in steps), sum(count for count, _ in counts), \
            sum(count for count, kernel in counts if "LoraLinear" in kernel), answers

    def test_two_more_for_a_linear(self):
        linears = linears_of(FAMILIES / "llama")
        self.adapters = {f"a{rank}": Adapter(linears, rank=rank, seed=rank).write(self.folder / f"a{rank}") for rank in (2, 8, 33)}
        prompt = PROMPT[:5]
        steps, without, none, _ = self.run_on_device([request(None, prompt, max_tokens=4)])
        self.assertEqual(none, 0)
        steps_with, with_one, of_adapters, alone = self.run_on_device([request("a8", prompt, max_tokens=4)])
        self.assertEqual((steps_with, with_one - without, of_adapters), (steps, 2 * self.LINEARS * steps, 2 * self.LINEARS * steps))
        names = ("a2", "a8", "a33", "a8")
        steps, _, of_adapters, mixed = self.run_on_device([request(name, prompt, max_tokens=4) for name in names])
        self.assertEqual(of_adapters, 2 * self.LINEARS * steps)
        self.assertEqual(essence(mixed[1:2]), essence(alone))


class Modules(FolderTest):
    """What of an adapter is no pair of matrices, and what is refused."""

    def setUp(self):
        super().setUp()
        self.model = FAMILIES / "llama"
        self.adapter = Adapter({"model.layers.0.self_attn.q_proj": linears_of(self.model)["model.layers.0.self_attn.q_proj"]})

    def refused(self, folder, *options, code=65):
        done = run("-m", self.model, "--lora-modules", f"a={folder}", "--prompt-ids", "5,6", *options, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def answers_with_faults(self, requests, *options):
        done = run("-m", self.model, "--input-format", "jsonl", "--output-format", "jsonl", *options, check=False,
                   stdin="".join(json.dumps(one) + "\n" for one in requests))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_patterns_count_in_their_order(self):
        linears = {name: shape for name, shape in linears_of(self.model).items() if "q_proj" in name or "v_proj" in name}
        one = Adapter(linears, rank=4, alpha=4.0, alpha_pattern={"q_proj": 8.0, "layers.0.self_attn.q_proj": 100.0})
        folder = one.write(self.folder / "patterns")
        # The first pattern that matches is that of all queries.
        for name in linears:
            if "q_proj" in name:
                one.b[name] = [2.0 * value for value in one.b[name]]
        other = merged(self.model, one, self.folder / "merged")
        ours, = run_jsonl([request("a")], "--dtype", "float32", *modules({"a": folder}), model=self.model)
        expected, = run_jsonl([request("")], "--dtype", "float32", model=other)
        self.assertEqual(ours["token_ids"], expected["token_ids"])

    def test_files_that_do_not_fit_are_refused(self):
        folder = self.adapter.write(self.folder / "good")
        self.assertIn("rank 4, more than the 2", self.refused(folder, "--max-lora-rank", 2, code=64))
        for key, value, what in (("peft_type", "IA3", "peft_type"), ("use_dora", True, "DoRA"), ("r", 5, "rank 5"),
                                 ("init_lora_weights", "pissa", "init_lora_weights"), ("layer_replication", [[0, 1]], "layer_replication")):
            with self.subTest(key=key):
                config = json.loads((folder / "adapter_config.json").read_text())
                (folder / "adapter_config.json").write_text(json.dumps({**config, key: value}))
                self.assertIn(what, self.refused(folder))
                (folder / "adapter_config.json").write_text(json.dumps(config))
        other = Adapter({"model.layers.7.self_attn.q_proj": (64, 64)}).write(self.folder / "other")
        self.assertIn("model.layers.7.self_attn.q_proj is no module", self.refused(other))
        self.assertIn("nowhere", self.refused(self.folder / "nowhere", code=66))
        self.assertIn("NAME=FOLDER", run("-m", self.model, "--lora-modules", "x", "-p", "x", check=False).stderr)

    def test_a_request_says_which_adapter(self):
        folder = self.adapter.write(self.folder / "a")
        answers = self.answers_with_faults([request("b"), request("a"), {**request("a"), "adapter": 3}], *modules({"a": folder}))
        self.assertIn("no adapter b", answers[0]["error"]["message"])
        self.assertEqual(len(answers[1]["token_ids"]), 12)
        self.assertIn("adapter", answers[2]["error"]["message"])
        without, = self.answers_with_faults([request("a")])
        self.assertIn("without adapters", without["error"]["message"])

    def test_the_plan_counts_room_for_adapters(self):
        folder = self.adapter.write(self.folder / "a")

        def plan(*options):
            done = subprocess.run([BIN / "nvllm-inspect", "plan", "-m", self.model, "--json", *options], capture_output=True, check=True)
            return json.loads(done.stdout)

        without, with_it = plan(), plan("--lora-modules", f"a={folder}", "--max-cpu-loras", "3", "--max-loras", "2")
        self.assertEqual(without["adapter_bytes"], 0)
        self.assertGreater(with_it["adapter_bytes"], 3 * (folder / "adapter_model.safetensors").stat().st_size // 2)
        self.assertEqual(with_it["weight_bytes"], without["weight_bytes"] + with_it["adapter_bytes"])

    def test_unknown_keys_are_told_of(self):
        self.adapter.config["use_something_else"] = True
        folder = self.adapter.write(self.folder / "a")
        self.assertIn("use_something_else", run("-m", self.model, *modules({"a": folder}), "--prompt-ids", "5,6", "-n", "1").stderr)


class Serving(FolderTest):
    def setUp(self):
        super().setUp()
        linears = linears_of(FAMILIES / "llama")
        self.folders = [Adapter(linears, seed=seed).write(self.folder / "made" / f"s{seed}") for seed in range(3)]
        self.expected = {}
        for folder in self.folders:
            answer, = run_jsonl([request("a")], *modules({"a": folder}), model=FAMILIES / "llama")
            self.expected[folder.name] = answer["token_ids"]

    def ask(self, server, model):
        return server.post("/v1/completions", {"model": model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True,
                                               "return_token_ids": True})

    def ids(self, server, model):
        answer = self.ask(server, model)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.json()["choices"][0]["token_ids"]

    def test_adapters_are_models_that_come_and_go(self):
        with Server("--served-model-name", "base", "--enable-lora", "--allow-runtime-lora-updating", "--lora-modules", f"one={self.folders[0]}",
                    model=FAMILIES / "llama") as server:
            models = {model["id"]: model for model in server.get("/v1/models").json()["data"]}
            self.assertEqual((models["base"]["parent"], models["one"]["parent"]), (None, "base"))
            self.assertEqual(server.get("/v1/models/one").json()["root"], str(self.folders[0]))
            self.assertEqual(self.ids(server, "one"), self.expected["s0"])
            self.assertEqual(self.ask(server, "two").status, 404)
            load = {"lora_name": "two", "lora_path": str(self.folders[1])}
            self.assertIn("added successfully", server.post("/v1/load_lora_adapter", load).text)
            self.assertEqual(self.ids(server, "two"), self.expected["s1"])
            self.assertEqual(server.post("/v1/load_lora_adapter", load).status, 400)
            load.update(lora_path=str(self.folders[2]), load_inplace=True)
            self.assertEqual(server.post("/v1/load_lora_adapter", load).status, 200)
            self.assertEqual(self.ids(server, "two"), self.expected["s2"])
            self.assertIn("removed successfully", server.post("/v1/unload_lora_adapter", {"lora_name": "two"}).text)
            self.assertEqual(self.ask(server, "two").status, 404)
            for body, field in (({"lora_path": "x"}, "lora_name"), ({"lora_name": "x"}, "lora_path"), ({"lora_name": "base", "lora_path": "x"}, "lora_name"),
                                ({"lora_name": "x y", "lora_path": "x"}, "lora_name"), ({"lora_name": "x", "lora_path": "/nowhere"}, "lora_path"),
                                ({"lora_name": "x", "lora_path": "x", "other": 1}, "other")):
                answer = server.post("/v1/load_lora_adapter", body)
                self.assertIn(answer.status, (400, 404), answer.text)
                self.assertEqual(answer.error["param"], field)

    def test_the_base_model_says_which_of_several_an_adapter_is_for(self):
        with Server("--enable-lora", "--allow-runtime-lora-updating", "--model", f"base={FAMILIES / 'llama'}",
                    model=f"other={FAMILIES / 'gpt2'}") as server:
            load = {"lora_name": "one", "lora_path": str(self.folders[0])}
            self.assertEqual(server.post("/v1/load_lora_adapter", load).status, 400)
            self.assertEqual(server.post("/v1/load_lora_adapter", {**load, "base_model_name": "base"}).status, 200)
            self.assertEqual(self.ids(server, "one"), self.expected["s0"])
            parents = {model["id"]: model["parent"] for model in server.get("/v1/models").json()["data"]}
            self.assertEqual(parents, {"other": None, "base": None, "one": "base"})

    def test_the_administration_alone_changes_adapters(self):
        with Server("--enable-lora", model=FAMILIES / "llama") as server:
            self.assertEqual(server.post("/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "x"}).status, 404)

    def test_a_folder_is_watched(self):
        watched = self.folder / "watched"
        watched.mkdir()
        shutil.copytree(self.folders[0], watched / "one")
        with Server("--served-model-name", "base", "--lora-dir", str(watched), model=FAMILIES / "llama") as server:
            self.assertEqual(self.ids(server, "one"), self.expected["s0"])
            shutil.copytree(self.folders[1], watched / "two")
            wait_until(lambda: self.ask(server, "two").status == 200)
            self.assertEqual(self.ids(server, "two"), self.expected["s1"])
            shutil.copytree(self.folders[2], watched / "one", dirs_exist_ok=True)
            wait_until(lambda: self.ids(server, "one") == self.expected["s2"])
            shutil.rmtree(watched / "two")
            wait_until(lambda: self.ask(server, "two").status == 404)

    def test_a_name_of_the_model_is_refused(self):
        server = Server("--served-model-name", "base", "--lora-modules", f"base={self.folders[0]}", model=FAMILIES / "llama", waits=False)
        self.addCleanup(server.process.stderr.close)
        self.assertEqual(server.process.wait(60), 64)


class Bundled(unittest.TestCase):
    """The demo model's adapters, beside what PEFT computes with them."""

    def test_answers_are_those_of_peft(self):
        lines = (SOURCE / "tests" / "fixtures" / "demo" / "adapters.jsonl").read_text().splitlines()
        expected = [json.loads(line) for line in lines]
        made = [request(case["adapter"], case["prompt_ids"], max_tokens=len(case["greedy_ids"])) for case in expected]
        folders = {name: SOURCE / "models" / f"demo-{name}" for name in ("verse", "fields")}
        answers = run_jsonl(made, "--dtype", "float32", *modules(folders))
        for case, answer in zip(expected, answers, strict=True):
            self.assertEqual(answer["token_ids"], case["greedy_ids"])
            for ours, theirs in zip(logprobs(answer), case["logprobs"], strict=True):
                self.assertTrue(math.isclose(ours, theirs, abs_tol=1e-4), f"{ours} for {theirs}")
        self.assertEqual({case["adapter"] for case in expected}, {"verse", "fields", None})


@needs_shared("adapters")
class SharedAdapters(unittest.TestCase):
    """Adapters and answers that PEFT made."""

    OPTIONAL = {"r4-dora"}

    def test_every_case_alone_and_all_mixed(self):
        folder = SHARED / "adapters"
        models, cases = peft_cases()
        mixed = json.loads((folder / "mixed.json").read_text())
        for name, model in models.items():
            own = {case["index"]: case for case in cases if case["model"] == name and case["adapter"] not in self.OPTIONAL}
            used = sorted({case["adapter"] for case in own.values()} - {None})
            groups = [[index for index in mixed[name] if index in own]]
            groups += [[index for index, case in own.items() if case["adapter"] == adapter] for adapter in (None, *used)]
            print(f"{name}: {len(groups[0])} cases, {len(used)} adapters")
            for group in groups:
                lines = [{**request(own[index]["adapter"], own[index]["prompt_ids"]), "max_tokens": 32, "logprobs": 0} for index in group]
                answers = run_jsonl(lines, "--dtype", "float32", "--max-loras", len(used), *modules({one: folder / name / one for one in used}), model=model)
                for index, answer in zip(group, answers, strict=True):
                    with self.subTest(model=name, case=index):
                        compare_with_peft(self, own[index], answer)

    def test_broken_ones_are_refused(self):
        folder = SHARED / "adapters"
        for case in json.loads((folder / "malformed" / "expected.json").read_text()):
            with self.subTest(adapter=case["adapter"]):
                done = run("-m", SHARED / "models" / case["model"], "--lora-modules", f"a={folder / case['adapter']}", "-p", "x", check=False)
                self.assertEqual(done.returncode, 65, done.stderr)


if __name__ == "__main__":
    unittest.main()
