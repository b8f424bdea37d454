"""nvllm-quantize when it is killed at any moment and when the disk is full: rows H6 and H7 of the fault table, at their full
sizes with NVLLM_SOAK=1 and at a few points otherwise. tests/lib/quantize/full_disk_test.cc walks over every write of a smaller model."""

import errno
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from fault_testing import sized
from programs import DEMO, TIMEOUT_S, environment
from quantize_testing import IO, LITTLE, QUANTIZE, QuantizeTest, digests, quantize

SEED = int(os.environ.get("NVLLM_TEST_SEED", random.randrange(10**6)))


class Interrupted(QuantizeTest):
    """The same run again and again, and what it gives when nothing comes between."""

    ARGUMENTS = LITTLE

    def setUp(self):
        super().setUp()
        self.source = digests(DEMO)
        self.out = self.folder / "out"
        self.partial = self.folder / "out.partial"
        self.arguments = ("-m", DEMO, "-o", self.out, *self.ARGUMENTS)
        # Each system call that wants room on the disk, or makes a name, is a place to end at.
        begin = time.monotonic()
        done = quantize(*self.arguments, env=environment(NVLLM_FAULTS="file.write:*=say"))
        self.whole_s = time.monotonic() - begin
        self.num_writes = done.stderr.count("fault point file.write")
        self.assertGreater(self.num_writes, 100)
        self.whole = digests(self.out)
        shutil.rmtree(self.out)

    def go_on(self):
        """To the end, unless the output had appeared and nothing was left beside it."""
        if self.partial.exists() or not self.out.exists():
            quantize(*self.arguments, "--resume")
        self.assertEqual(digests(self.out), self.whole)
        self.assertFalse(self.partial.exists())
        shutil.rmtree(self.out)


class Killed(Interrupted):
    def killed_at_a_time(self, rng):
        delay_s = rng.uniform(0, self.whole_s)
        begun = subprocess.Popen([QUANTIZE, *map(str, self.arguments), "--resume"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, env=environment())
        time.sleep(delay_s)
        begun.kill()
        return begun.wait(TIMEOUT_S), f"after {1000 * delay_s:.0f} ms"

    def killed_at_a_write(self, rng):
        write = rng.randint(1, self.num_writes)
        done = quantize(*self.arguments, "--resume", check=False, env=environment(NVLLM_FAULTS=f"file.write:{write}=kill"))
        return done.returncode, f"before write {write} of {self.num_writes}"

    def killed(self, rng):
        """Whether it was, rather than at its end before; and where."""
        code, place = rng.choice((self.killed_at_a_time, self.killed_at_a_write))(rng)
        self.assertIn(code, (-signal.SIGKILL, 0), place)
        self.assertEqual(digests(DEMO), self.source, "the source was changed")
        if self.out.exists():
            self.assertEqual(digests(self.out), self.whole, "half a model appeared")
        return code != 0, place

    def test_H7_killed_at_any_point(self):
        rng = random.Random(SEED)
        num_points, num_kills, num_kept, num_assembling = sized(6, 50), 0, 0, 0
        while num_kills < num_points:
            is_killed, place = self.killed(rng)
            num_kills += is_killed
            num_kept += is_killed and any(self.partial.glob("block-*.safetensors"))
            num_assembling += is_killed and (self.partial / "output").exists()
            # Whoever goes on may be killed as well.
            if is_killed and not self.out.exists() and rng.random() < 0.5:
                continue
            with self.subTest(f"seed {SEED}, kill {num_kills}, {place}"):
                self.go_on()
        print(f"{num_kills} kills (NVLLM_TEST_SEED={SEED}), {num_kept} behind the first block, {num_assembling} of them while the "
              "output was assembled: every run that went on ended with the same bytes")


class FullDisk(Interrupted):
    ARGUMENTS = ("--method", "rtn")

    def check_failed(self, done, why):
        self.assertEqual(done.returncode, IO, done.stderr)
        self.assertRegex(done.stderr, f"error: {re.escape(str(self.folder))}/out.*{why}.*make room.*--resume")
        self.assertFalse(self.out.exists(), "half a model appeared")
        self.assertEqual(digests(DEMO), self.source, "the source was changed")

    def test_H6_full_at_a_write(self):
        rng = random.Random(SEED)
        every = range(1, self.num_writes + 1)
        writes = sized(sorted(rng.sample(every, 6)), every)
        for write in writes:
            with self.subTest(f"seed {SEED}, write {write} of {self.num_writes}"):
                self.check_failed(quantize(*self.arguments, check=False,
                                           env=environment(NVLLM_FAULTS=f"file.write:{write}+=errno={errno.ENOSPC}")),
                                  os.strerror(errno.ENOSPC))
                self.go_on()
        print(f"full at {len(writes)} of {self.num_writes} writes (NVLLM_TEST_SEED={SEED}): exit code {IO}, and on to the same bytes")

    def test_H6_a_real_limit(self):
        """Nothing pretends here: the system refuses what makes a file larger than so much."""
        for kib, of in ((0, "run.json"), (64, "block-00000"), (1024, "output/model.safetensors")):
            with self.subTest(of):
                limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * kib, 1024 * kib))
                done = quantize(*self.arguments, check=False, preexec_fn=limit)
                self.check_failed(done, f"{of}.*{os.strerror(errno.EFBIG)}")
                self.go_on()


if __name__ == "__main__":
    unittest.main()
