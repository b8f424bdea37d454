"""nvllm-quantize when it is killed at any moment, when the disk is full and when its input lies: rows H6 to H10 of the fault
table, the first two at their full sizes with NVLLM_SOAK=1 and at a few points otherwise. tests/lib/quantize/full_disk_test.cc walks
over every write of a smaller model."""

import base64
import errno
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from fault_testing import sized
from programs import DEMO, SHARED, TIMEOUT_S, environment, needs_shared
from quantize_testing import BAD_DATA, CANNOT_CREATE, IO, LITTLE, NO_INPUT, QUANTIZE, USAGE, QuantizeTest, digests, quantize

FEW = 2 if os.environ.get("NVLLM_SANITIZED") else 6
SEED = int(os.environ.get("NVLLM_TEST_SEED", random.randrange(10**6)))


def shared_cases(name):
    return [json.loads(line) for line in (SHARED / "malformed" / name).read_text().splitlines()]


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
        num_points, num_kills, num_kept, num_assembling = sized(FEW, 50), 0, 0, 0
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
        writes = sized(sorted(rng.sample(every, FEW)), every)
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


class Elsewhere(QuantizeTest):
    """What is kept was another run's, and what is where the output should be was there before."""

    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(DEMO, self.model)
        self.out = self.folder / "out"
        self.partial = self.folder / "out.partial"
        self.arguments = ("-m", self.model, "-o", self.out, "--method", "rtn")

    def interrupted(self):
        done = quantize(*self.arguments, check=False, env=environment(NVLLM_FAULTS="quantize.publish:1=kill"))
        self.assertEqual(done.returncode, -signal.SIGKILL)

    def test_H7_killed_between_the_output_and_the_end(self):
        self.interrupted()
        # As publish() does, up to its rename and no further.
        (self.partial / "published").touch()
        (self.partial / "output").rename(self.out)
        whole = digests(self.out)
        self.assertIn("exists already", self.fails(CANNOT_CREATE, *self.arguments))
        self.assertIn("exists already", self.fails(CANNOT_CREATE, *self.arguments, "--scheme", "W8A16", "--resume"))
        done = quantize(*self.arguments, "--resume")
        self.assertIn("finished already", done.stderr)
        self.assertIn("28, 4.125 bits a weight", done.stdout)
        self.assertEqual(digests(self.out), whole)
        self.assertFalse(self.partial.exists())

    def test_H8_what_was_kept_is_another_runs(self):
        self.interrupted()
        weights = self.model / "model.safetensors"
        data = weights.read_bytes()
        # Of the same shapes, with other values near the end of the file only.
        weights.write_bytes(data[:-1000] + bytes(byte ^ 1 for byte in data[-1000:]))
        self.assertRegex(self.fails(BAD_DATA, *self.arguments, "--resume"), "files/0/digest was .*--restart")
        weights.write_bytes(data)
        self.assertRegex(self.fails(BAD_DATA, *self.arguments, "--scheme", "W8A16", "--resume"), "recipe/.*--restart")
        run = self.partial / "run.json"
        text = run.read_text()
        run.write_text(text.replace('"version":"', '"version":"0.'))
        self.assertRegex(self.fails(BAD_DATA, *self.arguments, "--resume"), "version was .*--restart")
        run.write_text(text)
        self.assertIn("exclude each other", self.fails(USAGE, *self.arguments, "--resume", "--restart"))
        quantize(*self.arguments, "--scheme", "W8A16", "--restart")
        self.assertIn("W8A16", quantize("report", self.out).stdout)
        self.assertFalse(self.partial.exists())

    def test_H8_a_damaged_journal(self):
        quantize(*self.arguments)
        whole = digests(self.out)
        shutil.rmtree(self.out)
        self.interrupted()
        block = self.partial / "block-00002.safetensors"
        data = block.read_bytes()
        for damaged in (data[:len(data) // 2], data[:-1] + bytes([data[-1] ^ 1]), data[:200] + b"9" + data[201:], b""):
            block.write_bytes(damaged)
            self.assertIn("block-00002", self.fails(BAD_DATA, *self.arguments, "--resume"))
        block.unlink()
        quantize(*self.arguments, "--resume")
        self.assertEqual(digests(self.out), whole)

    def test_H10_outputs_that_cannot_be(self):
        before = digests(self.model)
        (self.folder / "file").write_text("somebody's")
        (self.folder / "folder").mkdir()
        (self.folder / "link").symlink_to("folder")
        (self.folder / "dangling").symlink_to("nowhere")
        for output in (self.model, "file", "folder", "link", "dangling", "file/below", f"{self.model}/"):
            with self.subTest(output):
                error = self.fails(CANNOT_CREATE, "-m", self.model, "-o", self.folder / output, "--method", "rtn")
                self.assertIn(str(self.folder), error)
        self.model.rename(self.partial)
        # Work on the output would be kept in the model's own folder.
        self.assertIn("is in the way", self.fails(CANNOT_CREATE, "-m", self.partial, "-o", self.out, "--method", "rtn", "--resume"))
        self.fails(CANNOT_CREATE, "-m", self.partial, "-o", self.out, "--method", "rtn", "--restart")
        self.assertEqual(digests(self.partial), before)
        self.assertEqual((self.folder / "file").read_text(), "somebody's")
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()),
                         ["dangling", "file", "folder", "link", "out.partial"])

    def test_H10_a_folder_that_must_not_be_written(self):
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            runs = subprocess.run([QUANTIZE, "--version"], capture_output=True, check=False, **nobody).returncode == 0
        except PermissionError:
            runs = False
        if not runs:
            self.skipTest(f"another user than root cannot run {QUANTIZE}")
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        self.assertIn(f"{self.partial}: cannot create the folder", self.fails(CANNOT_CREATE, *self.arguments, **nobody))


class Hostile(QuantizeTest):
    """What is no model, no recipe and no text: refused in one line, with nothing made and nothing read that is not there."""

    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.partial = self.folder / "out.partial"
        self.model = self.folder / "model"
        self.model.mkdir()
        for file in pathlib.Path(DEMO).iterdir():
            (self.model / file.name).symlink_to(file)

    def put(self, name, data):
        (self.model / name).unlink(missing_ok=True)
        (self.model / name).write_bytes(data)

    def check_refused(self, what, *arguments, codes=(BAD_DATA,), says=""):
        done = quantize(*(arguments or ("-m", self.model, "--method", "rtn")), "-o", self.out, check=False)
        with self.subTest(what):
            self.assertIn(done.returncode, codes, done.stderr)
            self.assertFalse(self.out.exists() or self.partial.exists())
            if done.returncode == 0:
                return
            errors = [line for line in done.stderr.splitlines() if "error: " in line]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertTrue(errors[0].startswith("nvllm-quantize: error: "), done.stderr)
            self.assertRegex(errors[0], says)
            self.assertEqual(done.stdout, "")

    def check_cases(self, file, put, *arguments, **options):
        cases = shared_cases(file)
        for case in cases:
            put(base64.b64decode(case["bytes_base64"]))
            self.check_refused(case["name"], *arguments, **options)
        print(f"{len(cases)} cases of {file} through nvllm-quantize: none made anything of what it is not")

    @needs_shared("malformed/safetensors.jsonl")
    def test_H9_hostile_weights(self):
        # None of these files holds this model, so even a good one is refused, by the name of a missing tensor.
        self.check_cases("safetensors.jsonl", lambda data: self.put("model.safetensors", data), says=str(self.model))

    @needs_shared("malformed/json.jsonl")
    def test_H9_hostile_configs_and_recipes(self):
        self.check_cases("json.jsonl", lambda data: self.put("config.json", data), says="config.json|architecture")
        recipe = self.folder / "recipe.yaml"
        self.check_cases("json.jsonl", recipe.write_bytes, "-m", DEMO, "--recipe", recipe, says="recipe.yaml:[0-9]+: ")

    @needs_shared("malformed/gguf.jsonl")
    def test_H9_hostile_files_of_another_kind(self):
        file = self.folder / "model.gguf"
        self.check_cases("gguf.jsonl", file.write_bytes, "-m", file, codes=(BAD_DATA, NO_INPUT), says="model.gguf")

    @needs_shared("malformed/utf8.jsonl")
    def test_H9_hostile_text(self):
        text = self.folder / "text.txt"
        # Bytes that are no text are tokens or are refused, by name.
        self.check_cases("utf8.jsonl", lambda data: text.write_bytes(data + b"\n" + b"Once upon a time. " * 400), "-m", DEMO,
                         "--dry-run", "--calibration", text, codes=(0, BAD_DATA), says="text.txt")

    def test_H9_headers_that_lie_about_sizes(self):
        data = (pathlib.Path(DEMO) / "model.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header, body = json.loads(data[8:8 + length]), data[8 + length:]
        name = "model.layers.1.mlp.up_proj.weight"
        begin, end = header[name]["data_offsets"]
        rows, columns = header[name]["shape"]

        def file(**changes):
            text = json.dumps({**header, name: {**header[name], **changes}}).encode()
            return len(text).to_bytes(8, "little") + text + body

        lies = {
            "more rows than bytes": file(shape=[rows * 1000, columns]),
            "rows and bytes beyond the file": file(shape=[rows * 1000, columns], data_offsets=[begin, begin + 1000 * (end - begin)]),
            "bytes beyond the file": file(data_offsets=[begin, len(body) + 2]),
            "bytes of somebody else": file(data_offsets=[0, end - begin]),
            "a size of 2^64": file(shape=[2**32, 2**32], data_offsets=[begin, begin]),
            "a size that overflows to the right one": file(shape=[rows, columns, 2**63, 2]),
            "an end before its begin": file(data_offsets=[end, begin]),
            "an offset below 0": file(data_offsets=[-2, end]),
            "an offset of 2^64": file(data_offsets=[begin, 2**64]),
            "a fraction of a row": file(shape=[rows + 0.5, columns]),
            "rows below 0": file(shape=[-rows, -columns]),
            "rows and columns exchanged": file(shape=[columns, rows]),
            "another type of the same size": file(dtype="I16"),
            "a type of half the size": file(dtype="F8_E4M3"),
            "an unknown type": file(dtype="F12"),
            "a header of 2^63 bytes": (2**63).to_bytes(8, "little") + data[8:],
            "a header as long as the file": len(data).to_bytes(8, "little") + data[8:],
            "no header": data[:8],
            "nothing": b"",
            "half a header": data[:8 + length // 2],
            "no data": data[:8 + length],
            "half the data": data[:8 + length + len(body) // 2],
            "a byte less": data[:-1],
            "a byte more": data + b"\0",
        }
        for what, lie in lies.items():
            self.put("model.safetensors", lie)
            self.check_refused(what, says="model.safetensors")
        index = {name: "shard.safetensors" for name in header if name != "__metadata__"}
        (self.model / "model.safetensors").unlink()
        self.put("shard.safetensors", data)
        for what, shard in (("a file above the folder", "../model/shard.safetensors"), ("an absolute path", "/etc/passwd"),
                            ("a missing file", "model-00002.safetensors"), ("a device", "zero.safetensors"), ("a pipe", "pipe.safetensors")):
            if what == "a device":
                (self.model / shard).symlink_to("/dev/zero")
            elif what == "a pipe":
                os.mkfifo(self.model / shard)
            self.put("model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": {**index, name: shard}}).encode())
            self.check_refused(what, codes=(BAD_DATA, NO_INPUT), says=str(self.model))


if __name__ == "__main__":
    unittest.main()
