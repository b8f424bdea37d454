"""Log-likelihoods by transformers, in float32 and float64: the oracle of lm_eval_client.py.

Usage: log_likelihoods.py MODEL < pairs.jsonl > answers.jsonl. Each line holds a context and a continuation as lists of
token ids; each answer is the sum of the continuation's logprobs, how far float32 is from float64 in it, and whether every
one of its tokens was the likeliest.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM


def rows_of(model, context, continuation):
    ids = torch.tensor([context + continuation])
    with torch.no_grad():
        return torch.log_softmax(model(ids).logits[0].double(), dim=-1)[len(context) - 1:-1]


def answer(models, context, continuation):
    single, double = (rows_of(model, context, continuation) for model in models)
    chosen = torch.tensor(continuation)
    total, exact = (rows.gather(1, chosen[:, None]).sum().item() for rows in (single, double))
    return {"log_likelihood": total, "float32_error": abs(total - exact),
            "is_greedy": bool((single.argmax(dim=-1) == chosen).all())}


def main():
    models = [AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=dtype).eval() for dtype in (torch.float32, torch.float64)]
    for line in sys.stdin:
        pair = json.loads(line)
        print(json.dumps(answer(models, pair["context"], pair["continuation"])), flush=True)


if __name__ == "__main__":
    main()
