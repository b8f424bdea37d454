"""vLLM on the CPU, its engine in this process."""

import os

from peer_script import arguments, report


def main():
    parser = arguments(__doc__)
    parser.add_argument("--cache-gb", type=int, default=4)
    options = parser.parse_args()
    os.environ.update(VLLM_CPU_KVCACHE_SPACE=str(options.cache_gb), VLLM_CPU_OMP_THREADS_BIND=f"0-{options.threads - 1}",
                      VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
    import vllm  # reads the environment
    engine = vllm.LLM(options.checkpoint, dtype="bfloat16", skip_tokenizer_init=True, enable_prefix_caching=False, max_num_seqs=64,
                      max_model_len=max(1088, options.prompt + options.generated + 16), disable_log_stats=True)

    def generate(requests):
        sampling = [vllm.SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False)
                    for _, count in requests]
        answers = engine.generate([{"prompt_token_ids": ids} for ids, _ in requests], sampling, use_tqdm=False)
        return sum(len(answer.outputs[0].token_ids) for answer in answers)

    report(options, generate)


if __name__ == "__main__":
    main()
