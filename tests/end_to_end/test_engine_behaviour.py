"""Continuous batching and prefix caching, asserted from the step log and from counts; threads, from what the system says of them."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from programs import DEMO, RUN, children, environment, run, run_jsonl, wait_until

USAGE = 64
ALLOWED = sorted(os.sched_getaffinity(0))


class ContinuousBatching(unittest.TestCase):
    def test_slots_stay_filled(self):
        requests = [{"prompt": "Once upon a time", "max_tokens": 5 + (index * 37) % 60, "ignore_eos": True, "seed": index}
                    for index in range(64)]
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps.jsonl"
            run_jsonl(requests, "--max-num-seqs", "8", "--step-log", log)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
        waiting = [step for step in steps if step["num_waiting"] > 0]
        self.assertGreater(len(waiting), 20)
        filled = sum(step["num_sequences"] for step in waiting) / (8 * len(waiting))
        print(f"slots filled while work waits: {100 * filled:.1f} % over {len(waiting)} steps")
        self.assertGreater(filled, 0.95)
        for before, after in zip(waiting, waiting[1:]):
            if before["num_finished"] > 0 and after["plan_number"] == before["plan_number"] + 1:
                self.assertEqual(after["num_sequences"], 8)


class PrefixCaching(unittest.TestCase):
    def test_repeated_prefix_is_not_computed_again(self):
        shared = [(index * 13) % 1500 + 300 for index in range(512)]
        requests = [{"prompt_token_ids": shared + [400 + index] * 5, "max_tokens": 1, "temperature": 0} for index in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            computed = {}
            for flag in ("--enable-prefix-caching", "--no-enable-prefix-caching"):
                log = pathlib.Path(folder) / "steps.jsonl"
                answers = run_jsonl(requests, flag, "--max-num-seqs", "1", "--step-log", log)
                computed[flag] = sum(json.loads(line)["num_tokens"] for line in log.read_text().splitlines())
                cached = [answer["usage"]["cached_tokens"] for answer in answers]
                expected = [0, 512, 512, 512] if flag == "--enable-prefix-caching" else [0, 0, 0, 0]
                self.assertEqual(cached, expected)
        self.assertEqual(computed["--no-enable-prefix-caching"] - computed["--enable-prefix-caching"], 3 * 512)

    def test_whole_prompt_again(self):
        request = {"prompt_token_ids": list(range(300, 300 + 512)), "max_tokens": 1, "temperature": 0}
        answers = run_jsonl([request, request], "--max-num-seqs", "1")
        # The last token is computed anew for its logits, so the last block is not taken from the cache.
        self.assertEqual([answer["usage"]["cached_tokens"] for answer in answers], [0, 496])
        self.assertEqual(answers[0]["token_ids"], answers[1]["token_ids"])


@contextlib.contextmanager
def waiting_engine(*arguments):
    """nvllm-run with an engine that has answered a request and waits for more."""
    process = subprocess.Popen([RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", *arguments],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        process.stdin.write('{"prompt": "Once", "max_tokens": 2}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.engine = process.pid
        if "process" in arguments:
            process.engine = wait_until(lambda: children(process.pid), what="a worker process")[0]
        yield process
    finally:
        process.stdin.close()
        process.stdout.read()
        process.errors = process.stderr.read()
        code = process.wait()
        process.stdout.close()
        process.stderr.close()
    assert code == 0, process.errors


def places(process_id):
    """Where each thread of a process may run, as the system writes it."""
    found = []
    for status in pathlib.Path(f"/proc/{process_id}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            found += [line.split()[1] for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list:")]
    return found


class Placement(unittest.TestCase):
    def test_a_mask_binds_one_thread_to_each_of_its_processors(self):
        masks = [",".join(map(str, ALLOWED)) + ",", hex(sum(1 << cpu for cpu in ALLOWED))]
        for mask in masks:
            for isolation in ("thread", "process"):
                with waiting_engine("--cpu-mask", mask, "--isolation", isolation) as process:
                    for cpu in ALLOWED:
                        wait_until(lambda: str(cpu) in places(process.engine), what=f"a thread on {cpu} of {mask}")
                    if len(ALLOWED) > 1:
                        bound = [place for place in places(process.engine) if place.isdigit()]
                        self.assertEqual(sorted(map(int, bound)), ALLOWED)

    def test_threads_take_turns_on_a_short_mask(self):
        last = ALLOWED[-1]
        with waiting_engine("-C", f"{last}-{last}", "--threads", "3") as process:
            wait_until(lambda: places(process.engine).count(str(last)) >= 3, what="three threads on one processor")

    def test_without_a_mask_nothing_is_bound(self):
        with waiting_engine("--numa", "off") as process:
            wait_until(lambda: len(places(process.pid)) > 1, what="an engine thread")
            self.assertEqual(len(set(places(process.pid))), 1)

    def test_nodes_change_no_answer(self):
        answers = [run_jsonl([{"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}], "--numa", numa)[0]["token_ids"]
                   for numa in ("auto", "off", "distribute", "isolate")]
        self.assertEqual(answers, answers[:1] * 4)

    @unittest.skipUnless(os.path.exists("/proc/self/numa_maps"), "this system has no memory nodes")
    def test_memory_is_preferred_in_the_node_of_the_start(self):
        with waiting_engine("--numa", "isolate", "--threads", "2") as process:
            def threads_that_prefer():
                first_lines = [path.read_text().split("\n", 1)[0]
                               for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/numa_maps")]
                return sum("prefer" in line for line in first_lines)

            # Each thread places itself when it starts, the second one perhaps after the first answer.
            patience = time.monotonic() + 2
            while (preferring := threads_that_prefer()) < 2 and time.monotonic() < patience:
                time.sleep(0.01)
        if "memory cannot be placed" in process.errors:  # a container's rules
            self.assertEqual(preferring, 0)
        else:
            self.assertEqual(preferring, 2)

    def test_processors_that_may_not_be_used(self):
        absent = ALLOWED[-1] + 1
        done = run("-m", DEMO, "-p", "x", "--cpu-mask", f"{ALLOWED[0]}-{absent}", check=False)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn(f"{absent} is absent or forbidden", done.stderr)
        self.assertIn("may use", done.stderr)
        for text in ("zebra", "0", "3-1"):
            done = run("-m", DEMO, "-p", "x", "--cpu-mask", text, check=False)
            self.assertEqual(done.returncode, USAGE)
            self.assertIn("hexadecimal mask", done.stderr)


if __name__ == "__main__":
    unittest.main()
