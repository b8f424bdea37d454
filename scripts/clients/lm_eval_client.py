"""lm-eval's `local-completions` against nvllm-serve: the log-likelihoods that it reads from answers are those of
transformers, within 1e-4 for a sum of a few tokens and 1e-6 a token beyond, and so is what it takes for greedy.

Usage: lm_eval_client.py --oracle PYTHON [--model DIRECTORY]; run with a Python that has lm-eval, see README.md beside this
file. PYTHON has torch and transformers.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "end_to_end"))

from programs import DEMO  # noqa: E402
from serve_testing import Server  # noqa: E402

TOLERANCE, TOLERANCE_PER_TOKEN = 1e-4, 1e-6

# Each asks for the likelier of two endings; words of the demo's own stories.
QUESTIONS = [
    ("Once upon a time, there was a", [" little girl", " sleepy because"]),
    ("The sun is", [" bright", " wooden spoon"]),
    ("She went to the", [" park", " and"]),
    ("One day, a boy named", [" Tom", " the"]),
    ("He was very", [" happy", " table"]),
    ("Where is the cat? It is", [" on the mat.", " 日本 😀"]),
    ("The", [" end.", " " * 8]),
    ("A long story: " + "the dog and the cat went to the park. " * 20 + "Then they went", [" home.", " zebra"]),
]

TASK = """\
task: nvllm_endings
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{endings}}}}"
doc_to_target: "{{{{best}}}}"
target_delimiter: ""
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


def write_task(folder):
    data = pathlib.Path(folder, "endings.jsonl")
    lines = [json.dumps({"context": context, "endings": endings, "best": 0}) for context, endings in QUESTIONS]
    data.write_text("\n".join(lines) + "\n")
    pathlib.Path(folder, "nvllm_endings.yaml").write_text(TASK.format(data=data))


def new_client(server, backend, model_directory, **more):
    tokenizer = {"tokenizer": str(model_directory)} if backend == "huggingface" else {}
    return LocalCompletionsAPI(model="demo", base_url=f"http://127.0.0.1:{server.port}/v1/completions",
                               tokenizer_backend=backend, tokenized_requests=True, **tokenizer, **more)


def oracle_answers(python, model_directory, pairs):
    lines = "".join(json.dumps({"context": context, "continuation": continuation}) + "\n" for context, continuation in pairs)
    done = subprocess.run([python, "-B", HERE / "log_likelihoods.py", model_directory], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the oracle failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(name, answers, expected, num_tokens=0):
    """Ends the program when a difference is too large."""
    if len(answers) != len(expected):
        raise SystemExit(f"{name}: {len(answers)} answers to {len(expected)} questions")
    worst = max(abs(answer[0] - known["log_likelihood"]) for answer, known in zip(answers, expected))
    of_float32 = max(known["float32_error"] for known in expected)
    num_wrong = sum(answer[1] != known["is_greedy"] for answer, known in zip(answers, expected))
    print(f"{name}: {len(answers)} log-likelihoods, the worst differs by {worst:.2g} (transformers from its own float64: "
          f"{of_float32:.2g}); {num_wrong} differ in what is greedy")
    if worst > TOLERANCE + num_tokens * TOLERANCE_PER_TOKEN or num_wrong > 0:
        raise SystemExit(f"{name}: too far apart")


def check_log_likelihoods(server, arguments):
    strings = [(context, ending) for context, endings in QUESTIONS for ending in endings]
    tokens_of = new_client(server, "huggingface", arguments.model).tok_encode
    greedy = [(context, server.complete(tokens_of(context), max_tokens=1)["choices"][0]["text"]) for context, _ in QUESTIONS]
    expected = None
    for backend, more in (("huggingface", {"batch_size": 8}), ("huggingface", {"num_concurrent": 4}), ("remote", {"batch_size": 1})):
        client = new_client(server, backend, arguments.model, **more)
        requests = [Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(strings + greedy)]
        pairs = [client._encode_pair(*pair) for pair in strings + greedy]
        if expected is None:
            expected = oracle_answers(arguments.oracle, arguments.model, pairs)
            print(f"{sum(known['is_greedy'] for known in expected)} of {len(expected)} continuations are greedy")
        answers = client.loglikelihood(requests, disable_tqdm=True)
        compare(f"{backend} {more}", answers, expected)


def check_rolling(server, arguments):
    text = " ".join(context for context, _ in QUESTIONS)
    client = new_client(server, "huggingface", arguments.model)
    answer, = client.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (text,), 0)], disable_tqdm=True)
    ids = client.tok_encode(text)
    known, = oracle_answers(arguments.oracle, arguments.model, [([client.prefix_token_id], ids)])
    compare(f"rolling over {len(ids)} tokens", [(answer, known["is_greedy"])], [known], num_tokens=len(ids))


def check_task(server, arguments):
    with tempfile.TemporaryDirectory() as folder:
        write_task(folder)
        client = new_client(server, "auto", arguments.model, num_concurrent=2)
        results = lm_eval.simple_evaluate(model=client, tasks=["nvllm_endings"], task_manager=TaskManager(include_path=folder),
                                          log_samples=True, bootstrap_iters=0)
    samples = results["samples"]["nvllm_endings"]
    answers = [response[0] for sample in sorted(samples, key=lambda sample: sample["doc_id"]) for response in sample["resps"]]
    pairs = [client._encode_pair(context, ending) for context, endings in QUESTIONS for ending in endings]
    compare(f"task by the {client.tokenizer_backend} tokenizer", answers, oracle_answers(arguments.oracle, arguments.model, pairs))
    print(f"accuracy {results['results']['nvllm_endings']['acc,none']:.3f}")


def check_generation(server, arguments):
    client = new_client(server, "huggingface", arguments.model, num_concurrent=2)
    requests = [Instance("generate_until", {}, (context, {"until": ["."], "max_gen_toks": 24}), index)
                for index, (context, _) in enumerate(QUESTIONS)]
    texts = client.generate_until(requests, disable_tqdm=True)
    for (context, _), text in zip(QUESTIONS, texts):
        ids = client.tok_encode(context)
        if text != server.complete(ids, max_tokens=24, stop=[".", "<|end|>"])["choices"][0]["text"]:
            raise SystemExit(f"generation after {context!r} differs: {text!r}")
    print(f"{len(texts)} generations are those of the server")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, help="a Python with torch and transformers")
    parser.add_argument("--model", default=DEMO, help="directory of the model (the demo)")
    arguments = parser.parse_args()
    print(f"lm-eval {lm_eval.__version__}")
    # Products and the cache in float32, as the oracle has them.
    with Server("--served-model-name", "demo", "--dtype", "float32", model=arguments.model) as server:
        check_log_likelihoods(server, arguments)
        check_rolling(server, arguments)
        check_task(server, arguments)
        check_generation(server, arguments)
        server.check()


if __name__ == "__main__":
    main()
