"""transformers on the CPU: bfloat16, its own scaled dot product attention, threads set. --way says how requests share steps."""

import torch
import transformers

from peer_script import arguments, report

GREEDY = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}


def batch_of(requests):
    """Ids and mask, prompts at the right end."""
    width = max(len(ids) for ids, _ in requests)
    ids = torch.zeros(len(requests), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (prompt, _) in enumerate(requests):
        ids[row, width - len(prompt):] = torch.tensor(prompt)
        mask[row, width - len(prompt):] = 1
    return ids, mask


def in_batches(model, requests, size):
    """A batch ends when its longest answer does; what shorter ones got beyond their length does not count."""
    for begin in range(0, len(requests), size):
        part = requests[begin:begin + size]
        ids, mask = batch_of(part)
        count = max(count for _, count in part)
        if model.generate(ids, attention_mask=mask, max_new_tokens=count, **GREEDY).shape[1] < ids.shape[1] + count:
            raise SystemExit("an answer ended early")
    return sum(count for _, count in requests)


def continuously(model, requests):
    """Its continuous batching; the cache has room for all requests."""
    blocks = sum((len(ids) + count) // 256 + 1 for ids, count in requests) + 8
    config = transformers.ContinuousBatchingConfig(num_blocks=blocks, max_batch_tokens=512, allow_block_sharing=False)
    generation = transformers.GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0, max_new_tokens=1)
    with model.continuous_batching_context_manager(generation_config=generation, continuous_batching_config=config) as manager:
        for ids, count in requests:
            manager.add_request(ids, max_new_tokens=count)
        answers = [manager.get_result(timeout=3600) for _ in requests]
    return sum(len(answer.generated_tokens) for answer in answers if answer is not None)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--way", default="one", choices=["one", "sorted", "all", "continuous"])
    parser.add_argument("--batch", type=int, default=8, help="of --way sorted: answers of like length together")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(options.checkpoint, dtype=torch.bfloat16, attn_implementation="sdpa")
    model.eval()
    model.generation_config = transformers.GenerationConfig(**GREEDY)

    @torch.no_grad()
    def generate(requests):
        if options.way == "continuous":
            return continuously(model, requests)
        if options.way == "sorted":
            requests = sorted(requests, key=lambda request: request[1])
        return in_batches(model, requests, {"one": 1, "sorted": options.batch, "all": len(requests)}[options.way])

    report(options, generate)


if __name__ == "__main__":
    main()
