"""Replicas of a model behind one program: the answers of one, each from the replica that has the least to do for it."""

import concurrent.futures
import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import unittest

from family_testing import FAMILIES
from programs import BIN, DEMO, environment, run, run_jsonl, wait_until
from serve_testing import Server, texts_at_once
from test_equality import essence, requests
from test_rank_recovery import is_below
from test_ranks import BOUND, MPI, UNDIVIDED, difference, folders, pipeline, tensor, text_config
from test_ranks import requests as family_requests
from test_serve_access import UnixConnection

MIXTRAL = FAMILIES / "mixtral"
ROUTINGS = ("prefix_aware", "least_loaded", "round_robin")
WORDS = "girl found red ball garden friend said let us play until mother calls dinner dog tree river big small boat".split()


def replicas(count, *more):
    return ("--data-parallel-size", str(count), *more)


def long_prompt(seed, words=150):
    return " ".join(random.Random(seed).choices(WORDS, k=words))


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.requests = requests(24)
        cls.expected = essence(run_jsonl(cls.requests))

    def steps_of(self, *arguments):
        """The answers, and the steps of each replica."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "steps.jsonl")
            answers = run_jsonl(self.requests, "--step-log", log, *arguments)
            with open(log, encoding="utf-8") as file:
                return essence(answers), [json.loads(line) for line in file]

    def test_bits_are_those_of_one(self):
        for count, routing in ((2, "prefix_aware"), (3, "least_loaded"), (2, "round_robin")):
            with self.subTest(count=count, routing=routing):
                answers, steps = self.steps_of(*replicas(count, "--data-parallel-routing", routing))
                self.assertEqual(answers, self.expected)
                self.assertEqual({step["replica"] for step in steps}, set(range(count)))

    def test_replicas_of_several_ranks(self):
        expected = essence(run_jsonl(self.requests, *tensor(2)))
        for more in ((), ("--isolation", "process"), MPI, ("--pipeline-parallel-size", "2")):
            with self.subTest(more=more):
                answers, steps = self.steps_of(*replicas(2), *tensor(2), *more)
                self.assertEqual(answers, expected)
                self.assertEqual({step["replica"] for step in steps}, {0, 1})
                self.assertTrue(all(step["rank_bytes"] > 0 for step in steps if step["num_tokens"] > 0))

    def test_features(self):
        more = ("--isolation", "process", "--max-num-seqs", "3", "--max-blocks", "24", "--swap-space", "16MiB",
                "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}')
        answers, _ = self.steps_of(*replicas(2), *more)
        self.assertEqual(answers, self.expected)


class Plans(unittest.TestCase):
    def plan(self, *arguments):
        command = [str(BIN / "nvllm-inspect"), "plan", "-m", str(DEMO), "--json", "--memory-limit", "512MiB", *arguments]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout)

    def test_replicas_share_the_memory_of_a_machine(self):
        one, two = self.plan(), self.plan(*replicas(2))
        self.assertEqual((one["replicas"], two["replicas"]), (1, 2))
        self.assertEqual(two["weight_bytes"], one["weight_bytes"])
        self.assertAlmostEqual(two["kv_budget_bytes"] + two["weight_bytes"] + two["scratch_bytes"], 256 << 20, delta=1 << 20)


class Routing(unittest.TestCase):
    """What goes where, by counts."""

    def ask(self, server, prompt, **more):
        return server.complete(prompt, max_tokens=2, temperature=0, **more)

    def cached(self, server, prompt):
        return self.ask(server, prompt)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def replica_counts(self, server):
        return [replica["routed"] for replica in server.status()["replicas"]]

    def cached_of_rounds(self, routing, rounds=3, prompts=6):
        """Cached tokens of the second and later times that each of several prompts is asked, one at a time, in another order."""
        with Server(*replicas(2, "--data-parallel-routing", routing)) as server:
            order = random.Random(5)
            cached = []
            for number in range(rounds):
                for seed in order.sample(range(prompts), prompts):
                    found = self.cached(server, long_prompt(seed))
                    if number > 0:
                        cached.append(found)
            return cached, self.replica_counts(server)

    def test_what_is_cached_is_used(self):
        cached, counts = self.cached_of_rounds("prefix_aware")
        self.assertTrue(all(found > 100 for found in cached), cached)
        self.assertEqual(sum(counts), 18)
        self.assertTrue(all(count > 0 for count in counts), counts)
        in_turn, counts = self.cached_of_rounds("round_robin")
        self.assertEqual(counts, [9, 9])
        self.assertLess(sum(in_turn), sum(cached))

    def test_prompts_that_come_at_once_stay_together(self):
        """The first is not computed yet when the others come."""
        prompt = long_prompt(77)
        with Server(*replicas(2)) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: self.ask(server, f"{prompt} number {number}"), range(4)))
            self.assertEqual(sorted(self.replica_counts(server)), [0, 4])

    def test_load_is_shared(self):
        for routing in ROUTINGS:
            with self.subTest(routing=routing), Server(*replicas(2, "--data-parallel-routing", routing)) as server:
                with concurrent.futures.ThreadPoolExecutor(12) as pool:
                    list(pool.map(lambda seed, to=server: self.ask(to, long_prompt(seed)), range(12)))
                counts = self.replica_counts(server)
                self.assertEqual(sum(counts), 12)
                self.assertGreaterEqual(min(counts), 4, counts)
                lines = server.get("/metrics").text.splitlines()
                for replica, count in enumerate(counts):
                    self.assertIn(f'nvllm_replica_requests_total{{model_name="{DEMO}",replica="{replica}"}} {count}', lines)

    def test_a_salt_parts_prompts(self):
        prompt = long_prompt(9)
        with Server(*replicas(2)) as server:
            self.ask(server, prompt, cache_salt="a")
            self.assertEqual(self.ask(server, prompt, cache_salt="b")["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(self.replica_counts(server), [1, 1])

    def test_the_cache_is_reset_everywhere(self):
        with tempfile.TemporaryDirectory() as folder:
            admin = os.path.join(folder, "admin.sock")
            inspect = os.path.join(folder, "inspect.sock")
            options = ("--data-parallel-routing", "round_robin", "--admin-socket", admin, "--inspect-socket", inspect)
            with Server(*replicas(2, *options)) as server:
                for seed in range(4):
                    self.ask(server, long_prompt(seed))

                def cached():
                    return [replica["blocks_cached"] for replica in server.status()["replicas"]]

                def ask(method, path):
                    with contextlib.closing(UnixConnection(admin)) as connection:
                        return server.request(method, path, connection=connection)

                self.assertTrue(all(count > 0 for count in cached()), cached())
                self.assertEqual(len(ask("GET", "/admin/state").json()), 2)
                self.assertEqual(sorted(os.listdir(folder)), ["admin.sock", "inspect.sock", "inspect.sock.1"])
                self.assertEqual(ask("POST", "/reset_prefix_cache").status, 200)
                self.assertEqual(cached(), [0, 0])


class SharedExperts(unittest.TestCase):
    """Attention by replica, and experts that all of them share out: every step is one of all ranks."""

    LAYOUTS = {"dp2": replicas(2), "dp2tp2": replicas(2) + tensor(2), "dp4": replicas(4),
               "dp2pp2": replicas(2) + pipeline(2), "dp2 process": replicas(2, "--isolation", "process")}

    def test_every_family(self):
        shared = 0
        for folder in folders(FAMILIES):
            config = text_config(folder)
            if not any("expert" in key for key in config):
                continue
            made = family_requests(config)
            alone = run_jsonl(made, "--dtype", "float32", model=folder)
            for name, layout in self.LAYOUTS.items():
                if "pp" in name and folder.name in UNDIVIDED:
                    continue
                with self.subTest(model=folder.name, layout=name), tempfile.TemporaryDirectory() as temporary:
                    log = os.path.join(temporary, "steps.jsonl")
                    answers = run_jsonl(made, "--dtype", "float32", *layout, "--enable-expert-parallel", "--step-log", log,
                                        model=folder)
                    self.assertEqual([answer["token_ids"] for answer in answers], [answer["token_ids"] for answer in alone])
                    self.assertLess(difference(answers, alone), BOUND)
                    if "tp" not in name:
                        self.assertEqual(essence(answers), essence(alone))
                    with open(log, encoding="utf-8") as file:
                        shared += sum(json.loads(line)["rank_bytes"] for line in file) > 0
        self.assertGreater(shared, 60)

    def test_over_mpi(self):
        made = family_requests(text_config(MIXTRAL))
        alone = run_jsonl(made, model=MIXTRAL)
        for more in ((), pipeline(2)):
            answers = run_jsonl(made, *replicas(2), "--enable-expert-parallel", *more, *MPI, model=MIXTRAL)
            self.assertEqual(essence(answers), essence(alone))

    def test_each_has_its_part(self):
        def plan(*arguments):
            command = [str(BIN / "nvllm-inspect"), "plan", "-m", str(MIXTRAL), "--json", *arguments]
            return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout)

        whole, shared = plan(*replicas(2)), plan(*replicas(2), "--enable-expert-parallel")
        config = json.loads((MIXTRAL / "config.json").read_text())
        experts = 3 * config["hidden_size"] * config["intermediate_size"] * config["num_local_experts"] * config["num_hidden_layers"]
        bytes_of_value = 4 if config["dtype"] == "float32" else 2
        self.assertEqual(whole["weight_bytes"] - shared["weight_bytes"], experts // 2 * bytes_of_value)

    def test_ports_of_further_replicas_must_exist(self):
        done = run("-p", "x", *replicas(2), *tensor(2), *MPI, "--rank-address", "127.0.0.1:65535", check=False)
        self.assertEqual(done.returncode, 64)
        self.assertIn("65536", done.stderr)

    def test_a_model_without_experts(self):
        made = requests(6)
        self.assertEqual(essence(run_jsonl(made, *replicas(2), "--enable-expert-parallel")), essence(run_jsonl(made)))


class Lost(unittest.TestCase):
    """Workers that are lost cost their requests a pause; those of other replicas nothing, unless they share experts."""

    def hurt(self, server, prompts, times, workers):
        undisturbed = texts_at_once(server, prompts)
        generator = random.Random(2)
        for _ in range(times):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(texts_at_once, server, prompts)
                wait_until(lambda: server.status()["requests"]["running"] > 4 or running.done())
                os.kill(generator.choice(workers_of(server)), signal.SIGKILL)
                self.assertEqual(running.result(), undisturbed)
            wait_until(lambda: len(workers_of(server)) == workers, what="all workers")
        self.assertGreaterEqual(server.status()["worker"]["restarts"], 1)
        wait_until(server.is_idle, what="a server without work")

    def test_killed_workers(self):
        prompts = [f"Once upon a time number {i} there was" for i in range(16)]
        with Server(*replicas(2), "--isolation", "process") as server:
            self.hurt(server, prompts, 4, workers=2)

    def test_killed_workers_that_share_experts(self):
        prompts = [[3 + i, 50, 60 + i, 70] for i in range(16)]
        options = replicas(2, "--enable-expert-parallel", "--tokenizer", DEMO)
        for more, workers in ((("--isolation", "process"), 1), (MPI, 2)):
            with self.subTest(more=more), Server(*options, *more, model=MIXTRAL) as server:
                self.hurt(server, prompts, 3, workers)


def workers_of(server):
    """Process ids of the workers below a server, whoever started them."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and is_below(int(entry), server.process.pid):
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
                if name.startswith("nvllm-worker") and rest.split()[0] != "Z":
                    found.append(int(entry))
    return found


if __name__ == "__main__":
    unittest.main()
