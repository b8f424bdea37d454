#!/usr/bin/env python3
"""Gaps between the tokens of eight running answers while a prompt of 4,096 tokens is computed beside them.

Usage: gaps.py [PATH_OF_NVLLM_RUN]

One run for each set of flags, on random weights; a gap is the time of a step in which the eight answers got a token.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1408,
          "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 8192,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": True}
FLAGS = ("--no-enable-chunked-prefill --max-num-batched-tokens 8192", "", "--prefill-chunk-size 128", "--long-prefill-token-threshold 64",
         "--long-prefill-token-threshold 256 --max-num-partial-prefills 1", "--step-time-target 40")


def measure(program, folder, flags):
    log = folder / "steps.jsonl"
    subprocess.run([program, "-m", folder, "--load-format", "dummy", "--max-model-len", "8192", "--input-format", "jsonl",
                    "--output-format", "jsonl", "-f", folder / "requests.jsonl", "--step-log", log, *flags.split()],
                   stdout=subprocess.DEVNULL, check=True)
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    return sorted(step["step_ms"] for step in steps if step["num_sequences"] >= 8)


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/nvllm-run"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        requests = [{"prompt_token_ids": [index + 5] * 16, "max_tokens": 400, "ignore_eos": True, "temperature": 0} for index in range(8)]
        requests.append({"prompt_token_ids": [7 * index % 8000 + 3 for index in range(4096)], "max_tokens": 2, "ignore_eos": True,
                         "temperature": 0})
        (folder / "requests.jsonl").write_text("\n".join(map(json.dumps, requests)))
        for flags in FLAGS:
            gaps = measure(program, folder, flags)
            print(f"{flags or 'none':64s} p50 {gaps[len(gaps) // 2]:7.1f}  p99 {gaps[int(0.99 * len(gaps))]:7.1f}  "
                  f"largest {gaps[-1]:7.1f} ms, {len(gaps)} gaps")


if __name__ == "__main__":
    main()
