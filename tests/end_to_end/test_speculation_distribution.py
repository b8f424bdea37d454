"""Sampled tokens have the same distribution with proposed tokens and without.

Two runs draw the tokens that follow a prompt many times, a plain one and one with proposals, with different seeds: tables of the
tokens at each place are compared by a chi-square test and by their KL divergence. The tokens after the first are those that proposals
are verified against. NVLLM_SOAK=1 draws 10,000 of each, of more methods; else fewer. A run with the same seeds gives the same tokens.
"""

import collections
import json
import math
import os
import pathlib
import tempfile
import unittest

from programs import SOURCE, run_jsonl

SOAKS = bool(os.environ.get("NVLLM_SOAK"))
METHODS = {
    "ngram": {"method": "ngram", "prompt_lookup_min": 1},
    "suffix": {"method": "suffix", "prompt_lookup_min": 1},
    "tree": {"model": str(SOURCE / "models" / "demo-draft"), "tree_width": 4, "tree_tokens": 10},
}
if SOAKS:
    METHODS |= {
        "draft_model": {"model": str(SOURCE / "models" / "demo-draft")},
        "eagle": {"method": "eagle", "model": str(SOURCE / "models" / "demo-eagle")},
        "mtp": {"method": "mtp", "model": str(SOURCE / "models" / "demo-mtp")},
        "eagle3": {"model": str(SOURCE / "models" / "demo-eagle3")},
        "tree of eagle3": {"model": str(SOURCE / "models" / "demo-eagle3"), "tree_width": 4, "tree_tokens": 10},
    }
SETTINGS = {
    "temperature": {"temperature": 1.3},
    "top_k": {"temperature": 1.2, "top_k": 8},
    "top_p": {"temperature": 1.2, "top_p": 0.8},
    "min_p": {"temperature": 1.5, "min_p": 0.03},
    "penalties": {"temperature": 1.0, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.3},
}
PROMPT = 'The dog was happy. The dog was sad. The dog and the cat were happy. The dog said, "I am happy." The dog'
NUM_TOKENS = 4  # the first comes with the prompt; the three after it can be proposed together
PLACES = range(1, NUM_TOKENS)
NUM_DRAWS = 10_000 if SOAKS else 1000
ANSWERS = 50  # of a request
MAX_KL = 0.05
# Standard deviations of the chi-square distribution, for all comparisons together. The seeds are fixed: a build passes or fails.
MAX_DEVIATIONS = 4.0


def requests(first_seed, num_draws):
    return [{"prompt": PROMPT, "max_tokens": NUM_TOKENS, "ignore_eos": True, "n": ANSWERS, "seed": first_seed + index, **setting}
            for setting in SETTINGS.values() for index in range(num_draws // ANSWERS)]


def draw(first_seed, *arguments, num_draws=NUM_DRAWS):
    """Of each setting the lists of ids that were drawn, and how many tokens were proposed."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "steps.jsonl"
        answers = run_jsonl(requests(first_seed, num_draws), "--max-num-seqs", "64", "--threads", "1", "--step-log", log, *arguments)
        num_drafts = sum(json.loads(line)["num_draft_tokens"] for line in log.read_text().splitlines())
    return {name: [answer["token_ids"] for answer in answers[at * num_draws:(at + 1) * num_draws]]
            for at, name in enumerate(SETTINGS)}, num_drafts


def speculate(method):
    """Whatever is proposed is verified, and something nearly always is."""
    return ("--speculative-config", json.dumps({**METHODS[method], "num_speculative_tokens": NUM_TOKENS - 1, "adaptive": False}))


def table(draws, place):
    return collections.Counter(ids[place] for ids in draws)


def merged(one, other, least=20):
    """Pairs of counts of the same tokens; those that came too seldom count as one."""
    pairs, rest = [], [0, 0]
    for token in one.keys() | other.keys():
        pair = (one[token], other[token])
        if sum(pair) >= least:
            pairs.append(pair)
        else:
            rest = [rest[0] + pair[0], rest[1] + pair[1]]
    return pairs + ([tuple(rest)] if sum(rest) else [])


def deviations(pairs):
    """How far the chi-square statistic of two tables is above its mean, in standard deviations of it by Wilson and Hilferty."""
    freedom = max(1, len(pairs) - 1)
    totals = [sum(pair[side] for pair in pairs) for side in (0, 1)]
    factor = math.sqrt(totals[1] / totals[0])
    statistic = sum((a * factor - b / factor) ** 2 / (a + b) for a, b in pairs)
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def divergence(pairs):
    """KL of the second from the first; half a draw is added to each, since none may have come."""
    totals = [sum(pair[side] + 0.5 for pair in pairs) for side in (0, 1)]
    return sum((b + 0.5) / totals[1] * math.log((b + 0.5) / totals[1] / ((a + 0.5) / totals[0])) for a, b in pairs)


class Distribution(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain, num_drafts = draw(1_000_000)
        assert num_drafts == 0

    def test_same_distribution(self):
        for at, method in enumerate(METHODS):
            drawn, num_drafts = draw(2_000_000 + 1_000_000 * at, *speculate(method))
            self.assertGreater(num_drafts, NUM_DRAWS * len(SETTINGS), method)
            for name in SETTINGS:
                self.assertEqual(len(drawn[name]), NUM_DRAWS)
                self.assertNotEqual(drawn[name], self.plain[name])
                for place in PLACES:
                    with self.subTest(method=method, setting=name, place=place):
                        pairs = merged(table(self.plain[name], place), table(drawn[name], place))
                        self.assertGreater(len(pairs), 2)
                        self.assertLess(divergence(pairs), MAX_KL)
                        self.assertLess(deviations(pairs), MAX_DEVIATIONS)

    def test_same_seeds_give_the_same_tokens(self):
        for method in METHODS:
            drawn, num_drafts = draw(1_000_000, *speculate(method), num_draws=2 * ANSWERS)
            self.assertGreater(num_drafts, 2 * ANSWERS * len(SETTINGS))
            self.assertEqual(drawn, {name: ids[:2 * ANSWERS] for name, ids in self.plain.items()}, method)

    def test_another_distribution_is_noticed(self):
        """What a proposal that is kept too often would do: every third token is the likeliest one."""
        for name in SETTINGS:
            for place in PLACES:
                counts = table(self.plain[name], place)
                likeliest = counts.most_common(1)[0][0]
                other = collections.Counter()
                for number, ids in enumerate(self.plain[name]):
                    other[likeliest if number % 3 == 0 else ids[place]] += 1
                with self.subTest(setting=name, place=place):
                    self.assertGreater(deviations(merged(counts, other)), MAX_DEVIATIONS)


if __name__ == "__main__":
    unittest.main()
