"""CTranslate2 on the CPU; --converted is the folder that ct2-transformers-converter wrote. Its tokens are texts, not ids.

It computes in float32: it has no bfloat16 on CPUs. Requests of many lengths (--requests) are not measured: a batch has one length.
"""

import json
import pathlib

import ctranslate2

from peer_script import arguments, report


def tokens_of(folder):
    tokenizer = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text())
    return {index: text for text, index in tokenizer["model"]["vocab"].items()}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--precision", default="float32", help="compute type")
    options = parser.parse_args()
    engine = ctranslate2.Generator(options.converted, device="cpu", compute_type=options.precision, inter_threads=1,
                                   intra_threads=options.threads)
    if options.requests:
        raise SystemExit("a batch has one length, so requests of many are not measured")
    texts = tokens_of(options.checkpoint)

    def generate(requests):
        (ids, count), = requests
        answers = engine.generate_batch([[texts[index] for index in ids]], max_length=count, min_length=count,
                                        include_prompt_in_result=False, sampling_topk=1)
        return len(answers[0].sequences_ids[0])

    report(options, generate)


if __name__ == "__main__":
    main()
