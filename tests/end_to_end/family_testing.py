"""What tests of single families share: requests, and a test of whatever moves, shares or takes away what is cached.

Ids and logprobs are those of a run in which nothing is shared, moved or taken away.
"""

import json
import pathlib
import random
import shutil
import struct

from programs import SOURCE, FolderTest, environment, run_jsonl
from tensors import read_tensors, write_tensors

FAMILIES = SOURCE / "tests" / "fixtures" / "families"
VOCABULARY = 128
# 20 blocks hold one longest sequence and a little.
TIGHT = ("--max-blocks", "20", "--max-num-seqs", "6")
SWAP = ("--preemption-mode", "swap", "--swap-space", "4MiB")


def ids(count, seed):
    generator = random.Random(seed)
    return [generator.randrange(3, VOCABULARY) for _ in range(count)]


def context_of(config):
    """The longest context, by any family's name for it; one of states alone has none."""
    names = ("max_position_embeddings", "n_positions", "model_max_length")
    return next((config[name] for name in names if config.get(name)), 256)


def requests():
    """Prompts of unequal length, half of them with a common beginning, some that repeat themselves, with answers that are longer."""
    made = []
    for index in range(14):
        prompt = (ids(40, 1) if index % 2 == 0 else ids(4, index) * 3) + ids(1 + 5 * index, 2 + index)
        made.append({"prompt_token_ids": prompt, "max_tokens": 60 + 5 * index, "logprobs": 2, "ignore_eos": True, "seed": index,
                     "temperature": 0.0 if index % 3 else 0.9})
    return made


# Of next-token layers: what stands before their tensors and those of their block, and the names of their own parts.
NEXT_TOKEN_LAYOUTS = {"qwen": ("mtp.", "layers.0.", ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"), "fc"),
                      "deepseek": ("model.layers.{}.", "", ("enorm", "hnorm", "shared_head.norm"), "eh_proj")}


def with_next_token_layer(folder, name, layer, layout):
    """A copy of a family's model whose block `layer` is its next-token layer as well, behind a random matrix."""
    folder = pathlib.Path(folder) / f"{name}-next"
    shutil.copytree(FAMILIES / name, folder)
    config = json.loads((folder / "config.json").read_text())
    tensors = read_tensors(folder / "model.safetensors")
    prefix, block, norms, join = NEXT_TOKEN_LAYOUTS[layout]
    prefix = prefix.format(config["num_hidden_layers"])
    body = f"model.layers.{layer}."
    made = {prefix + block + tensor.removeprefix(body): value for tensor, value in tensors.items() if tensor.startswith(body)}
    made |= {f"{prefix}{norm}.weight": tensors["model.norm.weight"] for norm in norms}
    hidden, generator = config["hidden_size"], random.Random(layer)
    values = [generator.gauss(0.0, hidden ** -0.5) for _ in range(2 * hidden * hidden)]
    made[f"{prefix}{join}.weight"] = ("BF16", [hidden, 2 * hidden], b"".join(struct.pack("<f", value)[2:] for value in values))
    write_tensors(folder / "model.safetensors", tensors | made)
    return folder


def essence(answers):
    return [(answer["token_ids"], answer["logprobs"]) for answer in answers]


class MovesTest(FolderTest):
    """`names`: of the families; `further`: arguments for runs beside those of all."""

    names = ()
    further = ()

    def setUp(self):
        super().setUp()
        self.expected = {name: essence(run_jsonl(requests(), "--no-enable-prefix-caching", "--max-num-seqs", "1", model=str(FAMILIES / name)))
                         for name in self.names}

    def steps_of(self, name, *arguments, env=None):
        log = pathlib.Path(self.folder) / "steps.jsonl"
        log.unlink(missing_ok=True)
        answers = essence(run_jsonl(requests(), "--step-log", log, *arguments, model=str(FAMILIES / name), env=env))
        self.assertEqual(answers, self.expected[name], arguments)
        return [json.loads(line) for line in log.read_text().splitlines()]

    def check_next_token_layer(self, name, layer, layout):
        """Its drafts are hardly ever right, and change no answer."""
        folder = str(with_next_token_layer(self.folder, name, layer, layout))
        for arguments in ((), (*TIGHT, "--preemption-mode", "recompute"), (*TIGHT, *SWAP, "--isolation", "process"),
                          ("--block-size", "4", "--prefill-chunk-size", "7")):
            log = pathlib.Path(self.folder) / "steps.jsonl"
            log.unlink(missing_ok=True)
            drafts = ("--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": 3, "adaptive": False}))
            with self.subTest(model=name, arguments=arguments):
                self.assertEqual(essence(run_jsonl(requests(), "--step-log", log, *drafts, *arguments, model=folder)), self.expected[name])
                self.assertGreater(sum(json.loads(line)["num_draft_tokens"] for line in log.read_text().splitlines()), 100)

    def check_moves(self):
        preempted = swapped = 0
        for name in self.names:
            for arguments in (TIGHT, (*TIGHT, "--no-enable-prefix-caching"), (*TIGHT, "--preemption-mode", "recompute"), (*TIGHT, *SWAP),
                              (*TIGHT, *SWAP, "--isolation", "process"),
                              (*TIGHT, "--scheduling-policy", "round-robin", "--defrag-threshold", "0.2"),
                              ("--max-blocks", "40", "--max-num-seqs", "6", "--block-size", "8", "--prefill-chunk-size", "5"), *self.further):
                with self.subTest(model=name, arguments=arguments):
                    steps = self.steps_of(name, *arguments)
                    preempted += steps[-1]["num_preemptions"]
                    swapped += sum(step["swapped_bytes"] for step in steps)
        print(f"{preempted} preemptions, {swapped} bytes swapped")
        self.assertGreater(preempted, 30)
        self.assertGreater(swapped, 0)

    def check_lost_worker(self):
        faults = environment(NVLLM_FAULTS="worker.step:60=abort")
        for name in self.names:
            with self.subTest(model=name):
                self.steps_of(name, "--isolation", "process", env=faults)

    def check_beams(self):
        search = [{"prompt_token_ids": ids(37, seed), "n": 4, "use_beam_search": True, "max_tokens": 40, "ignore_eos": True}
                  for seed in range(3)]
        for name in self.names:
            model = str(FAMILIES / name)
            expected = [answer["token_ids"] for answer in run_jsonl(search, "--no-enable-prefix-caching", model=model)]
            for arguments in ((), ("--block-size", "4"), ("--max-blocks", "20", "--max-num-seqs", "4")):
                with self.subTest(model=name, arguments=arguments):
                    answers = run_jsonl(search, *arguments, model=model)
                    self.assertEqual([answer["token_ids"] for answer in answers], expected)
