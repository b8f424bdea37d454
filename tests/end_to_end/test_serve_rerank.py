"""Scores, rankings and classes of texts: cross-encoders give what transformers computed, embedding models the cosine of
their own vectors, and a model that can do neither says what it is for."""

import json
import math
import unittest

from programs import DEMO, SOURCE
from serve_testing import Server, ServedTestCase

RERANKERS = SOURCE / "tests" / "fixtures" / "rerankers"
BI_ENCODER = SOURCE / "tests" / "fixtures" / "embeddings" / "bert"
RERANK_PATHS = ("/v1/rerank", "/rerank", "/v2/rerank")
SCORE_PATHS = ("/v1/score", "/score")
QUERY = "the cat"
DOCUMENTS = ["the cat sat on the mat", "who sat?", "it", "the cat sat on the mat", "the mat"]


def reference(name):
    return json.loads((RERANKERS / name / "reference.json").read_text())


def sigmoid(value):
    return 1.0 / (1.0 + math.exp(-value))


def softmax(values):
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Comparisons(ServedTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--model", f"cross={RERANKERS / 'bert'}", "--model", f"classes={RERANKERS / 'bert_classes'}",
                            "--model", f"bi={BI_ENCODER}", "--max-prompts", 64, "--dtype", "float32", "--isolation", "thread",
                            "--kv-cache-memory-bytes", "64M", model=f"demo={DEMO}")
        cls.addClassCleanup(cls.server.stop)
        cls.server.learn_canary()

    def ask(self, path, **fields):
        return self.server.must(self.server.post(path, fields))

    def scores(self, first, second, model="cross", **fields):
        answer = self.ask("/v1/score", model=model, text_1=first, text_2=second, **fields)
        return [row["score"] for row in answer["data"]]

    def test_scores_are_those_of_transformers(self):
        for row in reference("bert"):
            limit = {} if row["limit"] is None else {"truncate_prompt_tokens": row["limit"]}
            score, = self.scores(row["first"], row["second"], **limit)
            self.assertAlmostEqual(score, sigmoid(row["logits"][0]), places=4)
            raw, = self.scores(row["first"], row["second"], use_activation=False, **limit)
            self.assertAlmostEqual(raw, row["logits"][0], places=4)

    def test_the_answer_s_shape_on_all_routes(self):
        for path in SCORE_PATHS:
            answer = self.ask(path, model="cross", queries=QUERY, documents=DOCUMENTS)
            self.assertEqual(set(answer), {"id", "object", "created", "model", "data", "usage"})
            self.assertTrue(answer["id"].startswith("score-"))
            self.assertEqual((answer["object"], answer["model"]), ("list", "cross"))
            self.assertEqual([row["index"] for row in answer["data"]], list(range(len(DOCUMENTS))))
            self.assertEqual({row["object"] for row in answer["data"]}, {"score"})
            self.assertEqual(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"])
        pairs = self.scores([QUERY, "it"], ["it", QUERY])
        self.assertEqual(pairs, [*self.scores(QUERY, "it"), *self.scores("it", QUERY)])
        self.assertNotEqual(*pairs)

    def test_rankings(self):
        scores = self.scores(QUERY, DOCUMENTS)
        order = sorted(range(len(DOCUMENTS)), key=lambda index: (-scores[index], index))
        self.assertEqual(scores[0], scores[3])
        for path in RERANK_PATHS:
            answer = self.ask(path, model="cross", query=QUERY, documents=[*DOCUMENTS[:2], *({"text": text} for text in DOCUMENTS[2:])])
            self.assertEqual(set(answer), {"id", "model", "usage", "results"})
            self.assertTrue(answer["id"].startswith("rerank-"))
            self.assertGreater(answer["usage"]["total_tokens"], 20)
            self.assertEqual(answer["results"], [{"index": index, "document": {"text": DOCUMENTS[index]},
                                                  "relevance_score": scores[index]} for index in order])
            best = self.ask(path, model="cross", query=QUERY, documents=DOCUMENTS, top_n=2, return_documents=False)["results"]
            self.assertEqual(best, [{"index": index, "relevance_score": scores[index]} for index in order[:2]])
        cut = self.ask("/rerank", model="cross", query=QUERY, documents=["the cat sat on", "it"], max_tokens_per_doc=2)
        self.assertEqual({row["relevance_score"] for row in cut["results"]}, {*self.scores(QUERY, "the cat"), *self.scores(QUERY, "it")})

    def test_an_embedding_model_gives_the_cosine(self):
        texts = [QUERY, *DOCUMENTS]
        vectors = [row["embedding"] for row in self.ask("/v1/embeddings", model="bi", input=texts)["data"]]
        expected = [cosine(vectors[0], vector) for vector in vectors[1:]]
        for score, wanted in zip(self.scores(QUERY, DOCUMENTS, model="bi"), expected):
            self.assertAlmostEqual(score, wanted, places=5)
        results = self.ask("/v1/rerank", model="bi", query=QUERY, documents=DOCUMENTS)["results"]
        self.assertEqual([row["index"] for row in results], sorted(range(len(DOCUMENTS)), key=lambda i: (-expected[i], i)))
        for field, value in (("instruction", "Find"), ("max_tokens_per_doc", 3), ("use_activation", False)):
            self.assert_refused(self.server.post("/score", {"model": "bi", "text_1": "a", "text_2": "b", field: value}), 400, None, field)

    def test_classes(self):
        row = reference("bert_classes")[0]
        answer = self.ask("/classify", model="classes", input=[row["ids"]])
        answer["data"] += self.ask("/classify", model="classes", input=[QUERY])["data"]
        self.assertEqual([one["num_classes"] for one in answer["data"]], [3, 3])
        for one in answer["data"]:
            self.assertAlmostEqual(sum(one["probs"]), 1.0, places=5)
            self.assertEqual(one["label"], ("no", "maybe", "yes")[one["probs"].index(max(one["probs"]))])
        raw = self.ask("/classify", model="classes", input=QUERY, use_activation=False)["data"][0]["probs"]
        for value, wanted in zip(answer["data"][1]["probs"], softmax(raw)):
            self.assertAlmostEqual(value, wanted, places=5)
        self.assert_refused(self.server.post("/classify", {"model": "bi", "input": "a"}), 400, "unsupported_model", "model")

    def test_models_that_do_not_compare(self):
        """Each says what it is for."""
        body = {"query": QUERY, "documents": DOCUMENTS}
        self.assert_refused(self.server.post("/v1/rerank", body), 400, "unsupported_model", "model", says=("/v1/chat/completions", "cross-encoder"))
        self.assert_refused(self.server.post("/v1/rerank", {**body, "model": "classes"}), 400, "unsupported_model", "model", says=("3 classes", "/classify"))
        self.assert_refused(self.server.post("/v1/completions", {"model": "cross", "prompt": "a"}), 400, says=("makes scores",))
        self.assert_refused(self.server.post("/v1/rerank", {**body, "model": "x"}), 404, "model_not_found", "model")

    def test_bad_bodies(self):
        def refused(path, field, says=(), code=None, **fields):
            self.assert_refused(self.server.post(path, {"model": "cross", **fields}), 400, code, field, says=says)
        for path in RERANK_PATHS:
            refused(path, "query", documents=["a"])
            refused(path, "documents", query="a")
            refused(path, "documents", query="a", documents=[])
            refused(path, "documents", query="a", documents=[["a"]], says=("only texts",))
            refused(path, "documents", query="a", documents=["a"] * 65, says=("64",))
            refused(path, "top_n", query="a", documents=["a"], top_n="2")
        for path in SCORE_PATHS:
            refused(path, "text_1", text_2="a")
            refused(path, "text_1", text_1=["a", "b"], text_2=["c", "d", "e"], says=("2 texts",))
            refused(path, "data_1", text_1="a", data_1="a", text_2="a")
            refused(path, "text_2", text_1="a", text_2="the mat " * 60, code="context_length_exceeded")
            refused(path, "instruction", text_1="a", text_2="a", instruction="Find")
            refused(path, None, text_1="a", text_2="a", truncate_prompt_tokens=3, says=("leave no space",))
        fits = self.scores("a", "the mat " * 60, truncate_prompt_tokens=-1)
        self.assertEqual(len(fits), 1)
        answer = self.server.post("/score", {"model": "cross", "text_1": "a", "text_2": "a", "wat": 1})
        self.assertEqual(answer.headers["x-nvllm-ignored"], "wat")

    def test_a_client_that_leaves_ends_its_request_only(self):
        with self.server.raw() as connection:
            body = json.dumps({"model": "cross", "query": QUERY, "documents": ["the mat " * 40] * 64}).encode()
            connection.send(b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                            + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.server.check()


class TokensThatScore(unittest.TestCase):
    def test_a_text_model_answers_with_tokens(self):
        with Server("--classifier-from-token", "no,yes", "--dtype", "float32", model=RERANKERS / "qwen3_tokens") as server:
            for row in reference("qwen3_tokens")[:3]:
                answer = server.must(server.post("/v1/score", {"text_1": row["first"], "text_2": row["second"]}))
                self.assertAlmostEqual(answer["data"][0]["score"], softmax(row["logits"])[1], places=4)
                self.assertEqual(answer["usage"]["prompt_tokens"], len(row["ids"]))
            asked = {"query": QUERY, "documents": DOCUMENTS}
            usual, other = (server.must(server.post("/rerank", {**asked, **more})) for more in ({}, {"instruction": "Find cats"}))
            self.assertNotEqual(usual["usage"], other["usage"])


if __name__ == "__main__":
    unittest.main()
