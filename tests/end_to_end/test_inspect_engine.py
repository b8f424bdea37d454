"""nvllm-inspect on engines: dumps, a live socket, the full screen, traces, diff and doctor, as a user runs them."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import unittest

from programs import BIN, DEMO, RUN, SOURCE, TIMEOUT_S, FolderTest, environment, run, wait_until
from serve_testing import Server

INSPECT = str(BIN / "nvllm-inspect")
USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE, CANNOT_CREATE = 64, 65, 66, 69, 73


def inspect(*arguments, check=True, env=None):
    done = subprocess.run([INSPECT, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, env=env or environment())
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {arguments}\n{done.stderr}")
    return done


def inspect_json(*arguments, **options):
    return json.loads(inspect(*arguments, "--json", **options).stdout)


class EngineTest(FolderTest):
    def requests(self, count, max_tokens):
        """A file of prompts that all begin alike."""
        path = self.folder / "requests.jsonl"
        prompt = [(7 * i) % 1500 + 300 for i in range(48)]
        path.write_text("".join(json.dumps({"prompt_token_ids": prompt + [400 + i], "max_tokens": max_tokens,
                                            "ignore_eos": True, "seed": i}) + "\n" for i in range(count)))
        return path

    def dump(self, *arguments, count=6, max_tokens=20):
        path = self.folder / "dump.json"
        run("-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "-f", self.requests(count, max_tokens),
            "--inspect-dump", path, *arguments)
        return path

    def engine(self, *arguments):
        """A run that goes on until it is stopped, with a socket."""
        path = self.folder / "engine.sock"
        process = subprocess.Popen(
            [RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "-f",
             str(self.requests(500, 1500)), "--max-num-seqs", "4", "--inspect-socket", str(path), *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def answers():
            if process.poll() is not None:
                raise AssertionError(process.stderr.read())
            try:
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(str(path))
                return True
            except OSError:
                return False

        wait_until(answers, what="the engine's socket")
        return process, path

    def snapshot(self, path, line=b"summary\n"):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))  # waits, as a program does, where one with a time limit is told to try again
            peer.settimeout(TIMEOUT_S)
            peer.sendall(line)
            return json.loads(peer.makefile().readline())


class Dumps(EngineTest):
    def test_a_step_of_a_run(self):
        # A step late enough that all requests have come in, however late whoever reads them gets a core.
        dump = self.dump("--max-num-seqs", "3", "--inspect-dump-step", "150", max_tokens=300)
        requests = inspect_json("requests", dump)
        self.assertEqual(requests["steps"], 150)
        states = [row["state"] for row in requests["sequences"]]
        self.assertEqual(states, ["running"] * 3 + ["waiting"] * 3)
        self.assertEqual([row["wait"]["reason"] for row in requests["sequences"][3:]], ["no_slot"] * 3)
        cache = inspect_json("cache", dump)
        group = cache["groups"][0]
        self.assertEqual(group["used"] + group["cached"] + group["free"], group["total"])
        references = {block["block"]: block["references"] for block in group["blocks"]}
        found = dict.fromkeys(references, 0)
        for row in requests["sequences"]:
            table = inspect_json("table", row["request"], dump)
            for sequence in table["sequences"]:
                for entry in sequence["groups"][0]["entries"]:
                    found[entry["block"]] += 1
        self.assertEqual({block: count for block, count in found.items() if count},
                         {block: count for block, count in references.items() if count})
        # 48 common tokens are three blocks, held by all who run but those who came in with the first.
        self.assertGreaterEqual(max(references.values()), 1)
        self.assertIn("no slot", inspect("requests", dump).stdout)
        self.assertIn("found by others", inspect("table", 1, dump).stdout)

    def test_the_end_of_a_run(self):
        dump = self.dump("--max-num-seqs", "1")
        cache = inspect_json("cache", dump)
        self.assertEqual(cache["groups"][0]["used"], 0)
        # Each of the later five found the three common blocks.
        self.assertEqual(cache["hit_tokens"], 5 * 48)
        tree = inspect_json("tree", dump)
        root = [run for run in tree["runs"] if run["parent"] is None]
        self.assertEqual(len(root), 1)
        self.assertEqual((root[0]["tokens"], root[0]["hits"]), (48, 5))
        self.assertEqual(len(tree["runs"]), 7)
        self.assertEqual(inspect_json("requests", dump)["sequences"], [])

    def test_pictures(self):
        dump = self.dump("--inspect-dump-step", "5")
        for command in ("cache", "tree"):
            picture = self.folder / f"{command}.svg"
            inspect(command, dump, "--svg", picture)
            self.assertTrue(picture.read_text().startswith("<svg xmlns="))
            self.assertNotIn("http", picture.read_text().replace("http://www.w3.org/2000/svg", ""))
        self.assertEqual(inspect("cache", dump, "--svg", "/no/such/folder/x.svg", check=False).returncode, CANNOT_CREATE)

    def test_hostile_dumps(self):
        text = self.dump("--inspect-dump-step", "5").read_text()
        bad = self.folder / "bad.json"
        for length in range(0, len(text) - 1, max(1, len(text) // 40)):
            bad.write_text(text[:length])
            done = inspect("cache", bad, check=False)
            self.assertEqual(done.returncode, BAD_DATA, done.stderr)
            self.assertIn(str(bad), done.stderr)
        dump = json.loads(text)
        dump["groups"][0]["figures"]["blocks"]["total"] = 2**31 - 1
        bad.write_text(json.dumps(dump))
        self.assertIn("groups[0].states", inspect("tree", bad, check=False).stderr)
        self.assertEqual(inspect("cache", self.folder / "none.json", check=False).returncode, NO_INPUT)
        self.assertEqual(inspect("cache", check=False).returncode, USAGE)
        self.assertEqual(run("-m", DEMO, "-p", "x", "--inspect-dump-step", "3", check=False).returncode, USAGE)
        self.assertEqual(run("-m", DEMO, "-p", "x", "--inspect-dump", "/no/such/x", check=False).returncode, CANNOT_CREATE)
        self.assertEqual(inspect("table", 4711, self.dump(), check=False).returncode, NO_INPUT)


class Sockets(EngineTest):
    def test_live(self):
        process, path = self.engine()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        wait_until(lambda: self.snapshot(path)["scheduler"]["num_running"] == 4, what="four running")
        first, second = self.snapshot(path), self.snapshot(path, b"snapshot\n")
        self.assertFalse(first["has_tree"])
        self.assertTrue(second["has_tree"])
        self.assertGreaterEqual(second["scheduler"]["steps"], first["scheduler"]["steps"])
        self.assertIn("error", self.snapshot(path, b"rm -rf\n"))
        self.assertEqual(inspect_json("requests", "--socket", path)["num_running"], 4)
        self.assertIn("Group 0", inspect("cache", "--socket", path).stdout)
        self.assertIn("prefix tree", inspect("tree", "--socket", path).stdout)
        lines = inspect("watch", path, "--count", 3, "--interval", 0.1).stdout.splitlines()
        self.assertEqual(len(lines), 3)
        steps = [json.loads(line)["scheduler"]["steps"] for line in lines]
        self.assertEqual(steps, sorted(steps))
        # Somebody else's engine is not pushed aside.
        other = subprocess.run([RUN, "-m", DEMO, "-p", "x", "-n", "1", "--inspect-socket", str(path)], capture_output=True,
                               text=True, timeout=TIMEOUT_S, env=environment())
        self.assertEqual(other.returncode, CANNOT_CREATE)
        self.assertIn("another process listens", other.stderr)
        process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT_S)
        self.assertFalse(path.exists())

    def test_live_server(self):
        """A server's engines, each at a socket of its own, while it answers."""
        path = self.folder / "serve.sock"
        with Server("--model", f"a={DEMO}", "--model", f"b={DEMO}", "--inspect-socket", path, model=None) as server:
            body = {"prompt": "Once", "max_tokens": 1900, "n": 8, "ignore_eos": True, "stream": True}
            with server.raw() as connection:
                connection.send(server.raw_post("/v1/completions", {**body, "model": "a"}))
                connection.head()
                busy, idle = ([json.loads(line) for line in inspect("watch", socket_path, "--count", 3, "--interval", 0.1).stdout.splitlines()]
                              for socket_path in (path, f"{path}.2"))
                self.assertEqual([line["scheduler"]["num_running"] for line in busy], [8, 8, 8])
                self.assertLess(busy[0]["scheduler"]["steps"], busy[2]["scheduler"]["steps"])
                self.assertEqual([line["scheduler"]["num_running"] for line in idle], [0, 0, 0])
                self.assertIn("Group 0", inspect("cache", "--socket", path).stdout)
            server.check()
        self.assertFalse(path.exists() or pathlib.Path(f"{path}.2").exists())

    def test_bad_clients(self):
        process, path = self.engine()
        peers = []
        for _ in range(20):
            peer = socket.socket(socket.AF_UNIX)
            peer.settimeout(TIMEOUT_S)
            self.addCleanup(peer.close)
            try:
                peer.connect(str(path))
                peer.sendall(b"snapshot\n" * 50)  # never read
            except OSError:
                pass
            peers.append(peer)
        before = None
        for peer in peers:
            peer.close()
        for junk in (b"x" * 10_000, b"\0" * 200, b"half a line"):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(path))
                try:
                    peer.sendall(junk)
                except OSError:
                    pass

        def advances():
            nonlocal before
            now = self.snapshot(path).get("scheduler", {}).get("steps")
            if now is None:
                return False
            if before is None:
                before = now
            return now > before + 5

        wait_until(advances, what="steps after bad clients")
        self.assertIsNone(process.poll())

    def test_places(self):
        stale = self.folder / "stale.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(stale))
        run("-m", DEMO, "-p", "x", "-n", "1", "--inspect-socket", stale)
        self.assertFalse(stale.exists())
        taken = self.folder / "taken"
        taken.write_text("mine")
        open_to_all = self.folder / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        for path, says in ((taken, "is no socket"), (open_to_all / "s", "others can write"),
                           (self.folder / "no" / "s", "No such file"), (self.folder / ("x" * 200), "107 bytes")):
            done = run("-m", DEMO, "-p", "x", "-n", "1", "--inspect-socket", path, check=False)
            self.assertEqual(done.returncode, CANNOT_CREATE, done.stderr)
            self.assertIn(says, done.stderr)
        self.assertEqual(taken.read_text(), "mine")
        self.assertEqual(inspect("watch", self.folder / "nobody", check=False).returncode, NO_INPUT)


    def test_bad_engines(self):
        for answer, code in ((b'{"schema": "nvllm.snapshot/1"}\n', BAD_DATA), (b"{" * 5000 + b"\n", BAD_DATA),
                             (b"\xff\x00\n", BAD_DATA), (b"half a li", UNAVAILABLE), (b"", UNAVAILABLE)):
            path = self.folder / "fake.sock"
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
                server.listen()
                process = subprocess.Popen([INSPECT, "requests", "--socket", str(path)], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True, env=environment())
                peer, _ = server.accept()
                with peer:
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                    _, says = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, code, says)
                self.assertIn(str(path), says)
            path.unlink()


class Watch(EngineTest):
    def screen(self, path, size, keys, change=None):
        """Everything `watch` writes to a terminal of this size until `keys` end it, and its exit code."""
        leader, follower = pty.openpty()
        import fcntl
        import termios
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        before = termios.tcgetattr(follower)
        process = subprocess.Popen([INSPECT, "watch", str(path)], stdin=follower, stdout=follower, stderr=subprocess.PIPE,
                                   env=environment(), start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(process.stderr.close)
        text = b""

        def redrawn():
            nonlocal text
            while select.select([leader], [], [], 0)[0]:
                text += os.read(leader, 65536)
            return text.count(b"\x1b[H") >= 2

        wait_until(redrawn, what="a redraw")
        if change:
            change(follower)
            frames = text.count(b"\x1b[H")
            wait_until(lambda: redrawn() and text.count(b"\x1b[H") >= frames + 2, what="two more redraws")
        os.write(leader, keys)
        process.wait(TIMEOUT_S)
        redrawn()
        self.assertEqual(termios.tcgetattr(follower), before)
        os.close(leader)
        os.close(follower)
        return text.decode(), process.returncode

    def test_screen(self):
        _, path = self.engine()
        text, code = self.screen(path, (24, 80), b"q")
        self.assertEqual(code, 0)
        self.assertTrue(text.startswith("\x1b[?1049h\x1b[?25l"))
        self.assertTrue(text.endswith("\x1b[?25h\x1b[?1049l"))
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.split("\x1b[H")[2])
        frame = plain.replace("\r", "").split("\n")
        self.assertEqual(len(frame), 24)
        self.assertLessEqual(max(map(len, frame)), 80)
        self.assertIn("4 of 4 run", "\n".join(frame))
        self.assertIn("no slot", "\n".join(frame))

    def test_resize(self):
        import fcntl
        import termios
        _, path = self.engine()

        def resize(follower):
            fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))

        text, code = self.screen(path, (30, 100), b"q", resize)
        self.assertEqual(code, 0)
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.split("\x1b[H")[-1]).replace("\r", "").split("\n")
        self.assertEqual(len(plain), 12)
        self.assertLessEqual(max(map(len, plain)), 60)

    def test_interrupt_and_small_screen(self):
        _, path = self.engine()
        text, code = self.screen(path, (5, 30), b"\x03")
        self.assertEqual(code, 0)
        self.assertTrue(text.endswith("\x1b[?25h\x1b[?1049l"))


class Traces(EngineTest):
    def trace(self):
        path = self.folder / "trace.jsonl"
        done = subprocess.run([sys.executable, str(SOURCE / "scripts/measure/make_trace.py"), "--requests", "200", "--seconds",
                               "120"], capture_output=True, text=True, check=True)
        path.write_text(done.stdout)
        return path

    def test_all_policies(self):
        path = self.trace()
        picture = self.folder / "trace.svg"
        report = inspect_json("trace", path, "--scheduling-policy", "all", "--blocks", "128,512", "--svg", picture)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual(report["requests"], 200)
        self.assertEqual(report["prompt_tokens"], sum(row["input_length"] for row in rows))
        self.assertEqual(len(report["caches"]), 2)
        for cache in report["caches"]:
            self.assertEqual(len(cache["runs"]), 20)
            for outcome in cache["runs"]:
                self.assertEqual(outcome["finished"] + outcome["refused"], 200)
                if outcome["scheduling_policy"] == "fcfs":
                    self.assertLessEqual(outcome["hit_tokens"], cache["optimum"]["hit_tokens"])
        self.assertTrue(picture.read_text().startswith("<svg"))
        self.assertEqual(report, inspect_json("trace", path, "--scheduling-policy", "all", "--blocks", "128,512", "-t", 1))

    def test_counts(self):
        path = self.folder / "mine.jsonl"
        same = list(range(100, 165))
        path.write_text("".join(json.dumps({"arrival_s": 10 * i, "prompt_tokens": same, "max_tokens": 4}) + "\n"
                                for i in range(3)))
        report = inspect_json("trace", path, "--blocks", "64", "--eviction-policy", "lru")
        outcome = report["caches"][0]["runs"][0]
        self.assertEqual((outcome["hit_tokens"], outcome["prompt_tokens"], outcome["steps"]), (2 * 64, 3 * 65, 12))
        self.assertEqual(report["caches"][0]["optimum"]["hit_tokens"], 2 * 64)
        off = inspect_json("trace", path, "--blocks", "64", "--no-enable-prefix-caching")["caches"][0]["runs"][0]
        self.assertEqual(off["hit_tokens"], 0)
        model = self.folder / "step.json"
        model.write_text('{"fixed_ms": 1, "prefill_token_ms": 0, "prefill_position_ms": 0, "decode_sequence_ms": 0}')
        timed = inspect_json("trace", path, "--blocks", "64", "--step-model", model)["caches"][0]["runs"][0]
        self.assertAlmostEqual(timed["ttft_s"]["mean"], 0.001)
        model.write_text('{"speed": 1}')
        self.assertEqual(inspect("trace", path, "--step-model", model, check=False).returncode, BAD_DATA)

    def test_hostile(self):
        path = self.folder / "bad.jsonl"
        good = self.trace().read_text()
        path.write_text(good[:len(good) // 2])
        done = inspect("trace", path, check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertRegex(done.stderr, r"bad\.jsonl:\d+: ")
        self.assertEqual(inspect("trace", self.folder / "none", check=False).returncode, NO_INPUT)
        self.assertEqual(inspect("trace", self.trace(), "--eviction-policy", "mru", check=False).returncode, USAGE)
        self.assertEqual(inspect("trace", self.trace(), "--blocks", "0", check=False).returncode, USAGE)


class Drafts(EngineTest):
    def test_tree_of_a_step(self):
        log, svg = self.folder / "steps.jsonl", self.folder / "drafts.svg"
        run("-m", DEMO, "-p", "Once upon a time", "-n", "30", "--temperature", "0", "--draft-model", SOURCE / "models" / "demo-draft",
            "--speculative-config", '{"tree_width": 3, "tree_tokens": 8, "adaptive": false}', "--step-log", log)
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        trees = [tree for step in steps for tree in step.get("drafts", [])]
        report = inspect_json("drafts", log, "--model", DEMO, "--svg", svg)
        self.assertEqual(report["num_verifications"], len(trees))
        self.assertEqual(report["num_drafts"], sum(step["num_draft_tokens"] for step in steps))
        self.assertEqual(report["num_accepted"], sum(len(tree["accepted_rows"]) for tree in trees))
        self.assertGreater(report["num_accepted"], 0)
        last = report["drafts"][0]
        self.assertEqual({key: last[key] for key in ("token_ids", "parents", "accepted_rows")},
                         {key: trees[-1][key] for key in ("token_ids", "parents", "accepted_rows")})
        self.assertEqual(len(last["texts"]), len(last["token_ids"]))
        self.assertIn(f"sequence {last['sequence']}", svg.read_text())
        branched = next(step for step in steps if any(tree["parents"] != sorted(set(tree["parents"])) for tree in step.get("drafts", [])))
        text = inspect("drafts", log, "--step", branched["plan_number"]).stdout
        for token in branched["drafts"][0]["token_ids"]:
            self.assertRegex(text, rf"[*-] {token}\b")

    def test_refused(self):
        log = self.folder / "steps.jsonl"
        log.write_text('{"plan_number": 1}\n')
        self.assertEqual(inspect("drafts", log, "--step", "1", check=False).returncode, NO_INPUT)
        self.assertEqual(inspect("drafts", check=False).returncode, USAGE)
        log.write_text("none\n")
        done = inspect("drafts", log, check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertIn("line 1", done.stderr)


class Diffs(EngineTest):
    def test_altered_copy(self):
        copy = self.folder / "copy"
        shutil.copytree(DEMO, copy)
        self.assertTrue(inspect_json("diff", DEMO, copy, "--values")["equal"])
        weights = copy / "model.safetensors"
        data = bytearray(weights.read_bytes())
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        name = "model.layers.0.mlp.up_proj.weight"
        place = 8 + length + header[name]["data_offsets"][0]
        data[place:place + 2] = (0x4000).to_bytes(2, "little")  # 2.0 in bfloat16
        weights.write_bytes(data)
        config = json.loads((copy / "config.json").read_text())
        config["num_key_value_heads"] = 7
        config["surprise"] = True
        (copy / "config.json").write_text(json.dumps(config))
        self.assertEqual(inspect_json("diff", DEMO, copy)["tensors"], [])
        report = inspect_json("diff", DEMO, copy, "--values")
        self.assertFalse(report["equal"])
        self.assertEqual([row["key"] for row in report["config"]], ["num_key_value_heads", "surprise"])
        self.assertEqual([row["name"] for row in report["tensors"]], [name])
        values = report["tensors"][0]["values"]
        self.assertEqual((values["bytes_equal"], values["num_different"]), (False, 1))
        self.assertGreater(values["most_absolute"], 1.0)
        self.assertIn(name, inspect("diff", DEMO, copy, "--values").stdout)

    def test_different_models(self):
        report = inspect_json("diff", DEMO, SOURCE / "models" / "demo-draft")
        self.assertGreater(len(report["only_in_a"]), 0)
        self.assertEqual(report["only_in_b"], [])
        self.assertIn("bfloat16[", report["tensors"][0]["a"])
        self.assertEqual(inspect("diff", DEMO, "/no/such", check=False).returncode, NO_INPUT)
        self.assertEqual(inspect("diff", DEMO, check=False).returncode, USAGE)


class Doctor(EngineTest):
    def test_findings(self):
        done = inspect("doctor", "-m", DEMO, "--json", check=False)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if report["healthy"] else UNAVAILABLE)
        topics = {row["topic"]: row for row in report["findings"]}
        for topic in ("processor", "cores", "nodes", "threads", "memory", "limits", "hugepages", "disk", "CUDA", "NCCL", "MPI",
                      "cuBLASLt", "model"):
            self.assertIn(topics[topic]["health"], ("ok", "note", "problem"))
        self.assertEqual(topics["model"]["health"], "ok")

    def test_mpi_is_opened_and_asked(self):
        def mpi(**changes):
            libraries = str(BIN.parent / "test_libraries")
            done = inspect("doctor", "--json", check=False, env=environment(LD_LIBRARY_PATH=libraries, **changes))
            return next(row for row in json.loads(done.stdout)["findings"] if row["topic"] == "MPI")

        self.assertEqual((mpi()["health"], mpi()["text"]), ("ok", "libmpi.so.40 opens: Made-up MPI 4.2"))
        failing = mpi(MADE_UP_MPI_FAILS="1")
        self.assertEqual(failing["health"], "note")
        self.assertIn("libmpi.so.40 does not say its version", failing["text"])

    def test_problems(self):
        done = inspect("doctor", "-m", "/no/such/model", check=False)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("problem", done.stdout)
        done = inspect("doctor", check=False, env=environment(NVLLM_ISA="abacus"))
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("abacus", done.stdout)


if __name__ == "__main__":
    unittest.main()
