"""What /nvllm/status tells of requests that wait, of the most that run, and of what holds where a request says nothing."""

import re
import threading
import unittest

from fault_testing import FaultServer, completion, plain_prompt
from serve_testing import Server, wait_until


class Waiting(unittest.TestCase):
    def whys(self, server):
        return {request["why_waiting"] for request in server.status()["queue"] if request["state"] != "running"}

    def ask_at_once(self, server, *bodies):
        threads = [threading.Thread(target=server.complete, kwargs=body) for body in bodies]
        for thread in threads:
            thread.start()
            self.addCleanup(thread.join)
        return threads

    def test_a_request_without_a_slot_says_so(self):
        with FaultServer("--max-num-seqs", 2, interval_ms=20) as server:
            threads = self.ask_at_once(server, *(completion(plain_prompt(number), 100) for number in range(3)))
            wait_until(lambda: self.whys(server) == {"max_num_seqs: 2 sequences run"})
            wait_until(lambda: server.status()["requests"]["waiting"] == 1)  # as of the last step
            status = server.status()
            self.assertEqual((status["requests"]["running"], status["max_num_seqs"]), (2, 2))
            self.assertEqual([request["state"] for request in status["queue"]], ["waiting", "running", "running"])
            self.assertEqual([request["why_waiting"] for request in status["queue"] if request["state"] == "running"], [None, None])
            for thread in threads:
                thread.join()
            self.assertEqual(server.status()["queue"], [])

    def test_a_request_without_blocks_says_how_many_are_missing(self):
        # Room for 1,024 tokens, of which the first request takes 500 and may take more.
        with FaultServer("--max-model-len", 1024, "--kv-cache-memory-bytes", 2 << 20, "--no-enable-prefix-caching", interval_ms=60) as server:
            blocks = server.status()["kv_cache"]["blocks_total"]
            long = [plain_prompt(number, 16 * blocks - 200) for number in range(1, 3)]
            self.ask_at_once(server, completion(long[0], 100))
            wait_until(lambda: server.status()["requests"]["running"] == 1)
            self.ask_at_once(server, completion(long[1], 2))
            wait_until(lambda: any(re.fullmatch(r"needs \d+ more blocks than are free", why or "") for why in self.whys(server)))
            self.ask_at_once(server, completion(plain_prompt(3), 2))
            wait_until(lambda: "an earlier request waits for blocks" in self.whys(server))


class Defaults(unittest.TestCase):
    def test_sampling_defaults_are_those_in_force(self):
        with Server() as server:
            plain = server.status()["sampling_defaults"]
        self.assertEqual(set(plain), {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens"})
        overrides = '{"temperature": 0.7, "top_p": 0.95, "top_k": 40, "max_new_tokens": 9}'
        with Server("--override-generation-config", overrides, "--served-model-name", "one", "two") as server:
            status = server.status()
            self.assertEqual(status["sampling_defaults"], {**plain, "temperature": 0.7, "top_p": 0.95, "top_k": 40, "max_tokens": 9})
            self.assertEqual(status["models"][0]["sampling_defaults"], status["sampling_defaults"])
            self.assertEqual(status["models"][0]["names"], ["one", "two"])
            self.assertEqual(server.chat()["usage"]["completion_tokens"], 9)


if __name__ == "__main__":
    unittest.main()
