#!/usr/bin/env python3
"""Servers whose worker, memory or numbers fail: what clients see of it, and what is counted.

Rows of the fault table: G6 (a killed worker), G7 (a step that hangs), H3 (a checkpoint cut short), Q14 (numbers that are
none), want of memory, fragmentation; and models that come and go under load.
"""
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

from programs import environment
from serve_testing import DEMO, RawConnection, Server, request_bytes, texts_at_once, wait_until

DRAFT = Path(DEMO).parent / "demo-draft"
# Sanitizers are several times slower, and look for wrong accesses: fewer streams and kills lead to them all.
IS_SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))
NUM_STREAMS = 16 if IS_SANITIZED else 64
NUM_KILLS = 6 if IS_SANITIZED else 20
PROMPTS = [f"Once upon a time number {i} there was" for i in range(NUM_STREAMS)]


def with_faults(rules):
    return {**environment(), "NVLLM_FAULTS": rules}


def metric(server, name, **labels):
    """The sum of a metric's samples that have these labels."""
    total = 0.0
    for line in server.get("/metrics").text.splitlines():
        if line.startswith(name + "{") or line.startswith(name + " "):
            if all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
    return total


def poisoned_prompt():
    """Token ids that begin like no text does: faults for their first token concern nobody else."""
    with Server() as server:
        return server.post("/tokenize", {"content": "Zebra crossing the road"}).json()["tokens"]


class KilledWorkerTest(unittest.TestCase):
    def test_g6_streams_go_on_while_the_worker_is_killed(self):
        with Server() as server:
            server.learn_canary()
            undisturbed = texts_at_once(server, PROMPTS)
            kills = 0
            rounds = 0
            while kills < NUM_KILLS:
                rounds += 1
                self.assertLess(rounds, 60, "the worker could not be killed often enough in mid-stream")
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    texts = pool.submit(texts_at_once, server, PROMPTS)
                    killed_in_round = set()
                    while not texts.done() and kills < NUM_KILLS and len(killed_in_round) < 4:
                        status = server.status()
                        pid = status["worker"]["pid"]
                        if pid and pid not in killed_in_round and status["requests"]["running"] > 0:
                            os.kill(pid, signal.SIGKILL)
                            killed_in_round.add(pid)
                            kills += 1
                        time.sleep(0.05)
                    self.assertEqual(texts.result(), undisturbed)
            server.check()
            restarts = server.status()["worker"]["restarts"]
            self.assertGreaterEqual(restarts, kills)
            self.assertEqual(metric(server, "nvllm_worker_restarts_total"), restarts)
            self.assertGreaterEqual(metric(server, "nvllm_recoveries_total", level="worker"), restarts)
            print(f"{kills} kills in {rounds} rounds of {NUM_STREAMS} streams: no error, every text as undisturbed")

    def test_no_worker_outlives_the_server(self):
        server = Server()
        pid = server.status()["worker"]["pid"]
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10, "the end of the worker")
        server.kill()


class CutShortTest(unittest.TestCase):
    def test_h3_a_checkpoint_is_cut_short_while_it_is_served(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            shutil.copytree(DEMO, model)
            with Server(model=model) as server:
                server.complete("Once", max_tokens=3)
                weights = next(model.glob("*.safetensors"))
                os.truncate(weights, weights.stat().st_size // 2)
                # What the worker still has in memory may serve; the next one cannot read it.
                pid = server.status()["worker"]["pid"]
                self.assertIn(self.ask(server).status, (200, 503))
                with contextlib.suppress(ProcessLookupError):  # a bus error may have been quicker
                    os.kill(pid, signal.SIGKILL)
                wait_until(lambda: (answer := self.ask(server)).status == 503 and answer.error["code"] == "engine_dead", 30,
                           "the engine given up")
                self.assertEqual(server.get("/ready").json()["status"], "engine_dead")
                self.assertEqual(server.get("/live").status, 200)
                self.assertIsNone(server.process.poll())
                self.assertIn(weights.name, server.log)

    @staticmethod
    def ask(server):
        return server.post("/v1/completions", {"prompt": "Once", "max_tokens": 3})


class HangTest(unittest.TestCase):
    def test_g7_a_step_that_hangs_is_ended_and_done_again(self):
        with Server() as server:
            expected = texts_at_once(server, PROMPTS[:4], 40)
        # The first worker hangs in its 30th step; its successor counts anew and hangs as late.
        with Server("--watchdog-timeout", "1", env=with_faults("worker.step:30=sleep=600000")) as server:
            self.assertEqual(texts_at_once(server, PROMPTS[:4], 40), expected)
            wait_until(server.is_idle, 30, "a server without work")
            self.assertGreaterEqual(server.status()["worker"]["restarts"], 1)
            self.assertIn("the worker is gone", server.log)

    def test_g7_readiness_tells_of_a_stall_and_of_its_end(self):
        arguments = ("--isolation", "thread", "--watchdog-timeout", "0.5")
        with Server(*arguments, env=with_faults("engine.step:20=sleep=4000")) as server:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                texts = pool.submit(texts_at_once, server, PROMPTS[:2], 60)
                stalled = wait_until(lambda: (answer := server.get("/ready")).status == 503 and answer, 10,
                                     "readiness to tell of the stall")
                self.assertEqual(stalled.json()["status"], "engine_stalled")
                self.assertEqual(server.get("/live").status, 200)
                self.assertEqual(len(texts.result()), 2)
            wait_until(lambda: server.get("/ready").status == 200, 10, "readiness after the stall")
            server.check()


class NumbersTest(unittest.TestCase):
    def test_q14_rows_that_are_no_numbers_end_their_own_request(self):
        poisoned = poisoned_prompt()
        with Server() as server:
            expected = texts_at_once(server, PROMPTS[:7], 30)
        with Server(env=with_faults(f"worker.logits@{poisoned[0]}:1=nan")) as server:
            server.learn_canary()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                texts = pool.submit(texts_at_once, server, PROMPTS[:7], 30)
                answer = server.post("/v1/completions", {"prompt": poisoned, "max_tokens": 30, "temperature": 0})
                self.assertEqual(texts.result(), expected)
            self.assertEqual(answer.status, 500, answer)
            self.assertEqual(answer.error["code"], "nonfinite_logits")
            self.assertEqual(answer.headers.get("x-should-retry"), "false")
            again = server.post("/v1/completions", {"prompt": poisoned, "max_tokens": 30, "temperature": 0})
            self.assertEqual(again.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(metric(server, "nvllm_nonfinite_logits_total"), 1)
            server.check()

    def test_q14_in_a_stream_it_is_an_error_event(self):
        poisoned = poisoned_prompt()
        with Server(env=with_faults(f"worker.logits@{poisoned[0]}:3=nan")) as server:
            server.learn_canary()
            with server.raw() as connection:
                body = json.dumps({"prompt": poisoned, "max_tokens": 30, "temperature": 0, "ignore_eos": True,
                                   "stream": True})
                connection.send(request_bytes("POST", "/v1/completions", {
                    "Host": "localhost", "Content-Type": "application/json"}, body))
                everything = connection.receive_rest()
            self.assertIn(b'"code":"nonfinite_logits"', everything)
            self.assertNotIn(b"[DONE]", everything)
            self.assertFalse(everything.endswith(b"0\r\n\r\n"))
            server.check()

    def test_weights_are_read_again_and_then_a_backup_takes_over(self):
        poisoned = poisoned_prompt()
        with Server("--served-model-name", "m", "--backup-model", DRAFT,
                    env=with_faults(f"worker.logits@{poisoned[0]}:*=nan")) as server:
            for _ in range(40):
                answer = server.post("/v1/completions", {"prompt": poisoned, "max_tokens": 2})
                self.assertIn(answer.status, (500, 503), answer)
                if "takes its place" in server.log:
                    break
                time.sleep(0.1)
            wait_until(lambda: server.get("/ready").status == 200, 60, "the backup")
            self.assertEqual(server.get("/v1/models").json()["data"][0]["root"], str(DRAFT))
            self.assertEqual(server.complete("Once upon", max_tokens=3)["model"], "m")
            self.assertIn("takes its place", server.log)
            self.assertIn("the weights are read again", server.log)


class MemoryTest(unittest.TestCase):
    def test_want_of_memory_in_a_step_loses_nothing(self):
        with Server() as server:
            expected = texts_at_once(server, PROMPTS[:8], 40)
        with Server(env=with_faults("worker.step:20=bad_alloc")) as server:
            self.assertEqual(texts_at_once(server, PROMPTS[:8], 40), expected)
            self.assertEqual(metric(server, "nvllm_out_of_memory_total"), 1)
            self.assertEqual(metric(server, "nvllm_recoveries_total", level="adjust"), 1)
            # Let in once, let in for good: refusals begin with the step, not with the next look.
            wait_until(lambda: server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200, 10,
                       "requests to be let in again")
            server.check()

    def test_meanwhile_new_requests_are_refused(self):
        with Server(env=with_faults("worker.step:20+=bad_alloc")) as server:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(server.post, "/v1/completions",
                                      {"prompt": PROMPTS[0], "max_tokens": 60, "ignore_eos": True})
                refused = wait_until(
                    lambda: (answer := server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}))
                    and answer.status == 503 and answer, 20, "a refusal")
                self.assertEqual(refused.error["code"], "out_of_memory")
                self.assertIn("Retry-After", refused.headers)
                self.assertEqual(running.result().status, 503)
            self.assertEqual(server.get("/live").status, 200)

    def test_large_requests_wait_while_the_cache_is_put_in_order(self):
        arguments = ("--defrag-threshold", "0.4", "--kv-cache-memory-bytes", "2MiB", "--max-model-len", "1024")
        with Server(*arguments, env=with_faults("engine.fragmentation:1+=nan")) as server:
            server.complete("Once", max_tokens=2)
            wait_until(lambda: server.status()["kv_cache"]["fragmentation"] == 1.0, 10, "the figure")
            large = server.post("/v1/completions", {"prompt": "a b " * 300, "max_tokens": 2})
            self.assertEqual((large.status, large.error["code"]), (503, "fragmented"), large)
            self.assertEqual(server.complete("Once", max_tokens=2)["object"], "text_completion")
            self.assertGreaterEqual(metric(server, "nvllm_requests_rejected_total", reason="fragmented"), 1)


class ModelsTest(unittest.TestCase):
    """Two models of different geometry in one process, one of which comes and goes."""

    def test_models_come_and_go_under_load(self):
        with tempfile.TemporaryDirectory() as folder:
            admin = Path(folder) / "admin.sock"
            with Server("--admin-socket", admin, model=f"big={DEMO}") as server:
                server.learn_canary()
                expected = texts_at_once(server, PROMPTS[:32], 60)
                stop = threading.Event()
                faults = []

                def change_models():
                    while not stop.is_set():
                        for action, body in (("load", {"name": "small", "path": str(DRAFT)}),
                                             ("unload", {"name": "small"})):
                            answer = self.ask_admin(admin, "POST", f"/admin/models/{action}", body)
                            if answer.status != 200:
                                faults.append(answer)
                            if action == "load":
                                wait_until(lambda: self.is_loaded(server), 30, "the second model")
                                reply = server.post("/v1/completions", {
                                    "model": "small", "prompt": "Once", "max_tokens": 4, "temperature": 0})
                                if reply.status != 200:
                                    faults.append(reply)

                changing = threading.Thread(target=change_models)
                changing.start()
                try:
                    for _ in range(1 if IS_SANITIZED else 3):
                        self.assertEqual(texts_at_once(server, PROMPTS[:32], 60), expected)
                finally:
                    stop.set()
                    changing.join()
                self.assertEqual(faults, [])
                server.check()
                status = server.status()
                self.assertEqual([model["name"] for model in status["models"]], ["big"])
                answer = server.post("/v1/completions", {"model": "small", "prompt": "x"})
                self.assertEqual((answer.status, answer.error["code"]), (404, "model_not_found"))

    def test_two_models_share_one_pool_of_memory(self):
        """The busy one takes what the idle one does not use, and together they never have more than the pool."""
        pool_bytes = 4 << 20
        with tempfile.TemporaryDirectory() as folder:
            admin = Path(folder) / "admin.sock"
            with Server("--admin-socket", admin, "--kv-cache-memory-bytes", pool_bytes, "--max-model-len", 256,
                        model=f"big={DEMO}") as server:
                server.learn_canary()
                expected = texts_at_once(server, PROMPTS[:32], 120)

                def cache(place):
                    return server.status()["models"][place]["kv_cache"]

                alone = cache(0)["blocks_total"]
                self.ask_admin(admin, "POST", "/admin/models/load", {"name": "small", "path": str(DRAFT)})
                wait_until(lambda: self.is_loaded(server), 30, "the second model")
                wait_until(lambda: cache(0)["bytes_total"] < 0.6 * pool_bytes, 10, "equal parts")
                halves = cache(0)["blocks_total"]
                largest, deadline = 0, time.monotonic() + 60  # want is looked for four times a second, a round may end between two
                while time.monotonic() < deadline:
                    self.assertEqual(texts_at_once(server, PROMPTS[:32], 120), expected)
                    self.assertLessEqual(cache(0)["bytes_total"] + cache(1)["bytes_total"], pool_bytes)
                    largest = max(largest, cache(0)["blocks_total"])
                    if largest > halves:
                        break
                self.assertGreater(largest, halves)
                answer = server.post("/v1/completions", {"model": "small", "prompt": "Once", "max_tokens": 200,
                                                         "ignore_eos": True})
                self.assertEqual(answer.json()["usage"]["completion_tokens"], 200)
                self.ask_admin(admin, "POST", "/admin/models/unload", {"name": "small"})
                wait_until(lambda: cache(0)["blocks_total"] == alone, 10, "the whole pool")
                server.check()

    def test_the_administration_is_at_its_socket_only(self):
        with tempfile.TemporaryDirectory() as folder:
            admin = Path(folder) / "admin.sock"
            with Server("--admin-socket", admin) as server:
                self.assertEqual(admin.stat().st_mode & 0o777, 0o600)
                for path in ("/admin/drain", "/admin/keys/reload", "/admin/models/load"):
                    self.assertEqual(server.post(path, {}).status, 404)
                self.assertEqual(server.get("/admin/state").status, 404)
                self.assertEqual(self.ask_admin(admin, "GET", "/admin/state").status, 200)
                trace = self.ask_admin(admin, "GET", "/admin/timeline").json()
                self.assertIn("traceEvents", trace)
                resized = self.ask_admin(admin, "POST", "/admin/cache/resize", {"share": 0.5})
                self.assertEqual(resized.status, 200, resized)
                wrong = self.ask_admin(admin, "POST", "/admin/cache/resize", {"share": 2})
                self.assertEqual(wrong.status, 400, wrong)
                server.check()
                self.assertEqual(self.ask_admin(admin, "POST", "/admin/drain").status, 200)
                self.assertEqual(server.wait(), 0)

    @staticmethod
    def ask_admin(admin, method, path, body=None):
        text = "" if body is None else json.dumps(body)
        with RawConnection(0, unix_socket=str(admin)) as connection:
            connection.send(request_bytes(method, path, {"Host": "admin", "Content-Type": "application/json",
                                                         "Connection": "close"}, text))
            return connection.answer()

    @staticmethod
    def is_loaded(server):
        states = {model["name"]: model["state"] for model in server.status()["models"]}
        return states.get("small") == "ready"


if __name__ == "__main__":
    unittest.main()
