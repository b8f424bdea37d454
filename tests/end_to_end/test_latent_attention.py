"""Models with latent attention: one vector of a token is cached, and shared, moved or taken away like keys and values.

Ids and logprobs are those of a run in which nothing is shared, moved or taken away.
"""

import json
import pathlib
import random
import struct
import subprocess
import unittest

from programs import BIN, SOURCE, FolderTest, environment, run, run_jsonl
from tensors import read_tensors, write_tensors

FAMILIES = SOURCE / "tests" / "fixtures" / "families"
LATENT = ("deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "glm4_moe_lite")
VOCABULARY = 128


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


def e4m3(code):
    """The value of a float8_e4m3 that is a number."""
    exponent, fraction = code >> 3 & 15, code & 7
    size = (8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0 ** -9
    return -size if code & 128 else size


def bfloat16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


class Answers(FolderTest):
    def setUp(self):
        super().setUp()
        self.expected = {name: essence(run_jsonl(requests(), "--no-enable-prefix-caching", "--max-num-seqs", "1", model=str(FAMILIES / name)))
                         for name in LATENT}

    def steps_of(self, name, *arguments, env=None):
        log = pathlib.Path(self.folder) / "steps.jsonl"
        log.unlink(missing_ok=True)
        answers = essence(run_jsonl(requests(), "--step-log", log, *arguments, model=str(FAMILIES / name), env=env))
        self.assertEqual(answers, self.expected[name], arguments)
        return [json.loads(line) for line in log.read_text().splitlines()]

    def test_nothing_that_moves_blocks_changes_an_answer(self):
        tight = ("--max-blocks", "20", "--max-num-seqs", "6")
        preempted = swapped = 0
        for name in LATENT:
            for arguments in (tight, (*tight, "--no-enable-prefix-caching"),
                              (*tight, "--preemption-mode", "swap", "--swap-space", "4MiB"),
                              (*tight, "--preemption-mode", "swap", "--swap-space", "4MiB", "--isolation", "process"),
                              (*tight, "--scheduling-policy", "round-robin", "--defrag-threshold", "0.2"),
                              ("--max-blocks", "40", "--max-num-seqs", "6", "--block-size", "8", "--prefill-chunk-size", "5")):
                with self.subTest(model=name, arguments=arguments):
                    steps = self.steps_of(name, *arguments)
                    preempted += steps[-1]["num_preemptions"]
                    swapped += sum(step["swapped_bytes"] for step in steps)
        print(f"{preempted} preemptions, {swapped} bytes swapped")
        self.assertGreater(preempted, 30)
        self.assertGreater(swapped, 0)

    def test_a_lost_worker_computes_again(self):
        faults = environment(NVLLM_FAULTS="worker.step:60=abort")
        for name in LATENT:
            with self.subTest(model=name):
                self.steps_of(name, "--isolation", "process", env=faults)

    def test_drafts_change_no_answer(self):
        drafted = 0
        for name in LATENT:
            with self.subTest(model=name):
                drafts = {"method": "suffix", "num_speculative_tokens": 4, "adaptive": False}
                steps = self.steps_of(name, "--speculative-config", json.dumps(drafts))
                drafted += sum(step["num_draft_tokens"] for step in steps)
        self.assertGreater(drafted, 50)

    def test_beams_fork(self):
        search = [{"prompt_token_ids": ids(37, seed), "n": 4, "use_beam_search": True, "max_tokens": 40, "ignore_eos": True} for seed in range(3)]
        for name in LATENT:
            model = str(FAMILIES / name)
            expected = [answer["token_ids"] for answer in run_jsonl(search, "--no-enable-prefix-caching", model=model)]
            for arguments in ((), ("--block-size", "4"), ("--max-blocks", "20", "--max-num-seqs", "4")):
                with self.subTest(model=name, arguments=arguments):
                    answers = run_jsonl(search, *arguments, model=model)
                    self.assertEqual([answer["token_ids"] for answer in answers], expected)


class Files(FolderTest):
    def model(self, name, tensors, **changes):
        folder = pathlib.Path(self.folder) / name
        folder.mkdir()
        config = json.loads((FAMILIES / "deepseek_v3" / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        write_tensors(folder / "model.safetensors", tensors)
        return folder

    def answers(self, folder):
        return essence(run_jsonl(requests()[:6], model=str(folder)))

    def test_layers_behind_the_last_are_set_aside(self):
        tensors = read_tensors(FAMILIES / "deepseek_v3" / "model.safetensors")
        behind = {name.replace("layers.1.", "layers.2."): tensor for name, tensor in tensors.items() if ".layers.1." in name}
        behind["model.layers.2.eh_proj.weight"] = ("BF16", [36, 72], bytes(2 * 36 * 72))
        folder = self.model("mtp", tensors | behind, num_nextn_predict_layers=1)
        self.assertEqual(self.answers(folder), self.answers(FAMILIES / "deepseek_v3"))
        self.assertIn("not used: model.layers.2", run("-m", folder, "--prompt-ids", "5,6,7", "-n", "2").stderr)

    def test_a_matrix_of_keys_and_values_in_float8_blocks(self):
        tensors = read_tensors(FAMILIES / "deepseek_v3" / "model.safetensors")
        generator = random.Random(4)
        dense, blocks = dict(tensors), dict(tensors)
        for name, (_, shape, _) in tensors.items():
            if not name.endswith("kv_b_proj.weight"):
                continue
            out, into = shape
            codes = bytes(generator.choice((0, 128)) + generator.randrange(0, 72) for _ in range(out * into))
            scales = [2.0 ** -(2 + row) for row in range((out + 127) // 128)]
            dense[name] = ("BF16", [out, into], bfloat16(e4m3(code) * scales[i // into // 128] for i, code in enumerate(codes)))
            blocks[name] = ("F8_E4M3", [out, into], codes)
            blocks[name + "_scale_inv"] = ("BF16", [len(scales), 1], bfloat16(scales))
        quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
        of_blocks = self.answers(self.model("blocks", blocks, quantization_config=quantization))
        self.assertEqual(of_blocks, self.answers(self.model("dense", dense)))
        self.assertNotEqual(of_blocks, self.answers(FAMILIES / "deepseek_v3"))


# As the file of DeepSeek-V3 has them.
V3 = {"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
      "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
      "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3",
      "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
      "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
      "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                       "original_max_position_embeddings": 4096, "type": "yarn"},
      "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 4,
      "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": True, "v_head_dim": 128, "vocab_size": 129280}


class Sizes(FolderTest):
    def plan(self, **changes):
        (pathlib.Path(self.folder) / "config.json").write_text(json.dumps(V3 | changes))
        done = subprocess.run([BIN / "nvllm-inspect", "plan", "-m", self.folder, "--load-format", "dummy", "--json", "--max-model-len", "4096"],
                              capture_output=True, text=True, env=environment())
        return done, json.loads(done.stdout)

    def test_the_plan_counts_one_vector_of_a_token(self):
        _, plan = self.plan()
        group, = plan["kv_groups"]
        self.assertEqual((group["kind"], len(group["layers"]), group["kv_heads"], group["head_dim"]), ("latent", 61, 1, 576))
        self.assertEqual(group["bytes_per_token"], 61 * 576 * 2)

    def test_random_weights_of_few_small_layers_run(self):
        small = dict(num_hidden_layers=2, first_k_dense_replace=1, n_routed_experts=16, n_group=4, topk_group=2, hidden_size=256,
                     intermediate_size=512, moe_intermediate_size=64, num_attention_heads=8, num_key_value_heads=8, vocab_size=512,
                     num_nextn_predict_layers=0)
        _, plan = self.plan(**small)
        self.assertEqual(plan["kv_groups"][0]["bytes_per_token"], 2 * 576 * 2)
        done = run("-m", self.folder, "--load-format", "dummy", "--max-model-len", "4096", "--prompt-ids", "5,6,7", "-n", "4", "--ignore-eos",
                   "--output-format", "json")
        self.assertEqual(len(json.loads(done.stdout)["token_ids"]), 4)


if __name__ == "__main__":
    unittest.main()
