#!/usr/bin/env python3
"""Ranks that are killed or stopped while many clients read streams: nobody sees more than a pause."""
import concurrent.futures
import contextlib
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from serve_testing import Server, texts_at_once, wait_until

IS_SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))
NUM_STREAMS = 16 if IS_SANITIZED else 32
NUM_KILLS = 3 if IS_SANITIZED else int(os.environ.get("NVLLM_TEST_KILLS", "8"))
PROMPTS = [f"Once upon a time number {i} there was" for i in range(NUM_STREAMS)]
RANKS = ("--tensor-parallel-size", "2", "--distributed-executor-backend", "mpi")


def stream_texts(server):
    return texts_at_once(server, PROMPTS)


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
            self.assertLess(rounds, 30 + 2 * times, "no rank could be hurt often enough in mid-stream")
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


# A host is a network namespace with a name of its own.
HOSTS = {"nvllm-a": "10.213.77.1", "nvllm-b": "10.213.77.2"}
AGENT = """#!/bin/sh
# HOST COMMAND...: as a remote shell does it
shift
exec ip netns exec nvllm-b unshare --uts sh -c "hostname nvllm-b; $*"
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def can_make_hosts():
    """Whether this process may make network namespaces; it leaves none behind."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", "nvllm-try"], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "delete", "nvllm-try"], capture_output=True, check=False)
    return made


class TwoHosts(unittest.TestCase):
    """Two hosts with a cable between them; the server is on the first, a rank on each."""

    def setUp(self):
        if not can_make_hosts():
            self.skipTest("LEFT OUT: network namespaces cannot be made here")
        for name in HOSTS:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
            ip("netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", name], check=False)
        ip("link", "add", "cable-a", "netns", "nvllm-a", "type", "veth", "peer", "name", "cable-b", "netns", "nvllm-b")
        for name, address in HOSTS.items():
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"cable-{name[-1]}")
            ip("-n", name, "link", "set", f"cable-{name[-1]}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.agent = os.path.join(folder.name, "agent.sh")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT)
        os.chmod(self.agent, 0o755)

    def test_a_cable_is_pulled(self):
        first, second = HOSTS.values()
        network = first.rsplit(".", 1)[0] + ".0/24"
        mpirun = (f"mpirun --host {first},{second} --mca plm_rsh_agent {self.agent} --mca btl self,tcp "
                  f"--mca btl_tcp_if_include {network} --mca oob_tcp_if_include {network}")
        # The test's own requests have to be made on the first host, too.
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.addCleanup(os.close, own)
        enter(os.open("/run/netns/nvllm-a", os.O_RDONLY))
        self.addCleanup(enter, own)
        with Server("--tensor-parallel-size", "2", "--distributed-executor-backend", "mpi", "--rank-address", f"{first}:0",
                    "--rank-launcher", mpirun) as server:
            undisturbed = stream_texts(server)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                texts = pool.submit(stream_texts, server)
                wait_until(lambda: server.status()["requests"]["running"] > 0, what="running requests")
                ip("-n", "nvllm-b", "link", "set", "cable-b", "down")
                wait_until(lambda: "starts again" in server.log, what="a lost rank")
                self.assertFalse(texts.done())
                ip("-n", "nvllm-b", "link", "set", "cable-b", "up")
                self.assertEqual(texts.result(), undisturbed)


def enter(namespace):
    """Of the network, for this thread and those that it starts."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    if shutil.which("mpirun") is None and os.environ.get("NVLLM_WITHOUT_MPI"):
        print("LEFT OUT: no MPI is installed here; ranks in processes of their own were not lost")
        sys.exit(0)
    unittest.main()
