#!/usr/bin/env python3
"""Ranks that are killed or stopped while many clients read streams: nobody sees more than a pause."""
import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import sys
import time
import unittest

from programs import environment
from serve_testing import Server, joined_text, wait_until

IS_SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))
NUM_STREAMS = 16 if IS_SANITIZED else 32
NUM_KILLS = 3 if IS_SANITIZED else 8
PROMPTS = [f"Once upon a time number {i} there was" for i in range(NUM_STREAMS)]
RANKS = ("--tensor-parallel-size", "2", "--distributed-executor-backend", "mpi")


def stream_texts(server, max_tokens=80):
    """The streamed texts of all prompts at once; whatever goes wrong is raised."""
    def one(prompt):
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        return joined_text(server.stream("/v1/completions", body))

    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        return list(pool.map(one, PROMPTS))


def ranks_of(server):
    """Process ids of the ranks that join this server, whoever started them."""
    address = None
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if b"join" in words[1:2] and words[0].endswith(b"nvllm-worker"):
                found.append((int(entry), words[2]))
    addresses = {address for pid, address in found if is_below(pid, server.process.pid)}
    return [pid for pid, address in found if address in addresses]


def is_below(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


class RankRecovery(unittest.TestCase):
    def hurt(self, server, signal_number, times):
        """Sends a signal to a random rank in mid-stream again and again; texts stay those of an undisturbed run."""
        generator = random.Random(1)
        undisturbed = stream_texts(server)
        hurt, rounds = 0, 0
        while hurt < times:
            rounds += 1
            self.assertLess(rounds, 30, "no rank could be hurt often enough in mid-stream")
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                texts = pool.submit(stream_texts, server)
                seen = set()
                while not texts.done() and hurt < times:
                    ranks = ranks_of(server)
                    status = server.status()
                    if len(ranks) == 2 and not seen & set(ranks) and status["requests"]["running"] > 0:
                        os.kill(generator.choice(ranks), signal_number)
                        seen |= set(ranks)
                        hurt += 1
                    time.sleep(0.05)
                self.assertEqual(texts.result(), undisturbed)
        return hurt

    def test_killed_ranks(self):
        with Server(*RANKS) as server:
            self.hurt(server, signal.SIGKILL, NUM_KILLS)

    def test_a_stopped_rank_is_found_by_the_watchdog(self):
        with Server(*RANKS, "--watchdog-timeout", "2") as server:
            self.hurt(server, signal.SIGSTOP, 1)
            wait_until(lambda: len(ranks_of(server)) == 2, what="two ranks, none of them stopped")


if __name__ == "__main__":
    if shutil.which("mpirun") is None and os.environ.get("NVLLM_WITHOUT_MPI"):
        print("LEFT OUT: no MPI is installed here; ranks in processes of their own were not lost")
        sys.exit(0)
    unittest.main()
