#!/usr/bin/env python3
"""Plants mistakes into copies of the CUDA kernels, one at a time, and demands that an emulated test fails for each.

Usage: cuda_mutants.py [--build FOLDER]... [--only WORDS] [--jobs N] [--list FILE]
       cuda_mutants.py --self-test

Needs a build with tests (test_cuda_emulated, test_cuda_races), which it brings up to date; a second one with
AddressSanitizer also sees accesses beyond memory that change no result. Of each mutant only the kernel
files with the mistake are compiled; everything else is reused. scripts/cuda_mutants.toml lists the mutants:

    [[mutant]]
    file = "kernels/cuda/norm.cu"       where the mistake is planted
    what = "no barrier before ..."      what it is
    find = '''...'''                    exact text, once in the file
    replace = '''...'''                 the text instead
    tests = "cuda: norms*"              which test cases have to notice: doctest's filter
    compile = ["kernels/cuda/x.cu"]     for a mistake in a header: the kernel files that include it

Besides the list, each barrier and each wait for copies in kernels/cuda is taken out by itself (the tests are
those that the list names for its file): what no test misses is not needed. --only barriers runs these alone.

Exit status: 0 every mutant was noticed; 1 some were not; 2 the list does not fit the sources, or something does not build.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The second one sees races, also those that leave results right.
PROGRAMS = ("test_cuda_emulated", "test_cuda_races")
TEST_SECONDS = 300
BARRIER = re.compile(r"^ *(__syncthreads|gpu::sync_warp|gpu::cp_async_wait<[^;]*>)\(\);.*$")


class Unfit(Exception):
    """The list, the sources and the build do not fit together."""


class Build:
    """What ninja would run, taken apart."""

    def __init__(self, folder):
        self.folder = folder
        programs = self.known_programs()
        subprocess.run(["ninja", "-C", folder, *programs], check=True, stdout=subprocess.DEVNULL)
        self.links = {program: self.link_command(program) for program in programs}
        self.compiles = json.loads((folder / "compile_commands.json").read_text())
        self.unmutated = {}
        self.lock = threading.Lock()

    def known_programs(self):
        targets = subprocess.run(["ninja", "-C", self.folder, "-t", "targets", "all"], check=True, capture_output=True, text=True)
        names = [program for program in PROGRAMS if re.search(rf"(^|/){program}: ", targets.stdout, re.MULTILINE)]
        if PROGRAMS[0] not in names:
            raise Unfit(f"{self.folder} has no {PROGRAMS[0]}; configure it with -DNVLLM_BUILD_TESTS=ON")
        return names

    def link_command(self, program):
        commands = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", program], check=True, capture_output=True, text=True)
        words = shlex.split(commands.stdout.strip().splitlines()[-1])
        return [word for word in words if word not in (":", "&&")]

    def compile_command(self, source, program):
        """The command for a kernel file among the objects of a program, and its object."""
        for entry in self.compiles:
            words = shlex.split(entry["command"])
            target = words[words.index("-o") + 1] if "-o" in words else None
            if pathlib.Path(entry["file"]) == source and target in self.links[program]:
                return words, target
        return None, None

    def run(self, executable, tests):
        """Whether the tests pass, and what they print."""
        command = [executable, f"--test-case={tests}"]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return False, f"no end after {TEST_SECONDS} s"
        return done.returncode == 0, done.stdout + done.stderr

    def demand_green(self, program, tests):
        """Without a mutant the tests pass, and there are some."""
        with self.lock:
            if (program, tests) in self.unmutated:
                return
            passed, text = self.run(self.folder / "bin" / program, tests)
            if not passed:
                raise Unfit(f"{program} fails without a mutant (tests {tests!r}):\n{text}")
            if not re.search(r"test cases:\s+[1-9]", text):
                raise Unfit(f"{program} has no test case {tests!r}")
            self.unmutated[(program, tests)] = True


def mutated_text(mutant):
    source = ROOT / mutant["file"]
    if not source.exists():
        raise Unfit(f"{mutant['file']}: no such file ({mutant['what']})")
    text = source.read_text()
    if "line" in mutant:
        lines = text.splitlines(keepends=True)
        lines[mutant["line"]] = "\n"
        return "".join(lines)
    count = text.count(mutant["find"])
    if count != 1:
        raise Unfit(f"{mutant['file']}: the text to replace is there {count} times, not once ({mutant['what']}):\n{mutant['find']}")
    if mutant["find"] == mutant["replace"]:
        raise Unfit(f"{mutant['file']}: the replacement changes nothing ({mutant['what']})")
    return text.replace(mutant["find"], mutant["replace"])


def compile_mutant(build, program, source, overlay, number):
    """Compiles a kernel file so that the overlay's files come before the tree's. Its object is to take the place of the first."""
    words, target = build.compile_command(ROOT / source, program)
    if words is None:
        raise Unfit(f"{program} has no object of {source}")
    mutated = overlay / source
    compiled = overlay / f"{program}_{number}.o"
    words[words.index("-o") + 1] = str(compiled)
    words[words.index("-c") + 1] = str(mutated if mutated.exists() else ROOT / source)
    words = [word if not word.startswith("-O") else "-O1" for word in words]
    words.insert(1, f"-I{overlay}")
    done = subprocess.run(words, cwd=build.folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unfit(f"{source} does not compile with the mutant:\n{done.stderr}")
    return target, str(compiled)


def link_mutant(build, program, objects, overlay):
    executable = overlay / program
    words = [objects.get(word, word) for word in build.links[program]]
    words[words.index("-o") + 1] = str(executable)
    subprocess.run(words, cwd=build.folder, check=True)
    return executable


def first_complaint(text):
    for line in text.splitlines():
        if re.search(r"ERROR|exception|race|CHECK|no end|Sanitizer|SIG", line):
            return line.strip()[:150]
    return "the program ended"


def try_mutant(builds, mutant):
    """Which program noticed the mutant, and by what; None when none did."""
    for build in builds:
        noticed = try_in_build(build, mutant, mutated_text(mutant), mutant.get("tests", "*"))
        if noticed is not None:
            return noticed
    return None


def order_of_trial(build, mutant):
    """The programs of a build; that which sees races first where the mutant makes some."""
    programs = list(build.links)
    if "line" in mutant:
        return programs[::-1]
    for word in ("__syncthreads", "cp_async", "sync_warp"):
        if mutant["find"].count(word) != mutant["replace"].count(word):
            programs.reverse()
            break
    return programs


def try_in_build(build, mutant, text, tests):
    with tempfile.TemporaryDirectory(prefix="cuda_mutant_", dir=build.folder) as name:
        overlay = pathlib.Path(name)
        copy = overlay / mutant["file"]
        copy.parent.mkdir(parents=True)
        copy.write_text(text)
        for program in order_of_trial(build, mutant):
            build.demand_green(program, tests)
            objects = dict(compile_mutant(build, program, source, overlay, number)
                           for number, source in enumerate(mutant.get("compile", [mutant["file"]])))
            passed, output = build.run(link_mutant(build, program, objects, overlay), tests)
            if not passed:
                return program, first_complaint(output)
    return None


def try_all(builds, mutants, jobs):
    """Prints one line a mutant; returns how many nobody noticed."""
    survivors = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for mutant, noticed in zip(mutants, pool.map(lambda mutant: try_mutant(builds, mutant), mutants)):
            name = f"{pathlib.Path(mutant['file']).name}: {mutant['what']}"
            if noticed is None:
                survivors.append(name)
                print(f"SURVIVED  {name}", flush=True)
            else:
                print(f"noticed   {name}\n          {noticed[0]}: {noticed[1]}", flush=True)
    print(f"{len(mutants)} mutants, {len(survivors)} not noticed")
    return len(survivors)


def read_list(path, only):
    mutants = tomllib.loads(path.read_text())["mutant"]
    for mutant in mutants:
        mutated_text(mutant)  # all of them first: a list that does not fit is known at once
    mutants += barrier_mutants(mutants)
    return [mutant for mutant in mutants if only in f"{mutant['file']} {mutant['what']}"]


def barrier_mutants(listed):
    """One mutant for each line of the kernels that is a barrier or a wait; tests and compiled files as listed for the file."""
    mutants = []
    for source in sorted((ROOT / "kernels" / "cuda").rglob("*.[ch]*")):
        file = str(source.relative_to(ROOT))
        own = [mutant for mutant in listed if mutant["file"] == file]
        compiled = {name: None for mutant in own for name in mutant.get("compile", [file])}
        tests = {mutant.get("tests", "*"): None for mutant in own}
        for number, line in enumerate(source.read_text().splitlines()):
            found = BARRIER.match(line)
            if found is None:
                continue
            if not own:
                raise Unfit(f"{file} has a barrier and no mutant in the list that says which tests belong to it")
            mutants.append({"file": file, "line": number, "what": f"barriers: {found[1]} of line {number + 1} removed",
                            "tests": ",".join(tests), "compile": list(compiled)})
    return mutants


def self_test(builds):
    """The mechanism over the sample kernels: mistakes are noticed, harmless changes survive, wrong lists are refused."""
    kernel = {"file": "tests/kernels/cuda/sample_kernels.cu", "tests": "*in every order of threads"}
    barrier = {"find": "partial[gpu::warp_id()] = sum;\n    __syncthreads();", "replace": "partial[gpu::warp_id()] = sum;"}
    edge = {"find": "row < rows && column < columns", "replace": "row < rows && column + 1 < columns"}
    harmless = {"find": "constexpr int kThreads = 128;", "replace": "constexpr int kThreads = 256;"}
    absent = {"find": "no such text", "replace": ""}
    checks = [("a missing barrier", {**kernel, "what": "barrier", **barrier}, True), ("a wrong edge", {**kernel, "what": "edge", **edge}, True),
              ("a harmless change", {**kernel, "what": "harmless", **harmless}, False)]
    failures = 0
    for name, mutant, wanted in checks:
        noticed = try_mutant(builds, mutant)
        right = (noticed is not None) == wanted
        failures += not right
        print(f"{'ok  ' if right else 'FAIL'} {name}: {noticed[0] + ': ' + noticed[1] if noticed else 'not noticed'}")
    for name, mutant in (("text that is not there", {**kernel, "what": "absent", **absent}),
                         ("tests that do not exist", {**kernel, "what": "tests", **barrier, "tests": "no such test"})):
        try:
            try_mutant(builds, mutant)
            failures += 1
            print(f"FAIL {name}: accepted")
        except Unfit as unfit:
            print(f"ok   {name}: {str(unfit).splitlines()[0]}")
    return failures


def main():
    parser = argparse.ArgumentParser(description="Mutants of the CUDA kernels; see the head of this file.")
    parser.add_argument("--build", type=pathlib.Path, action="append", help="default: build/release")
    parser.add_argument("--list", type=pathlib.Path, default=ROOT / "scripts" / "cuda_mutants.toml")
    parser.add_argument("--only", default="", help="only mutants whose file or description has these words")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    try:
        builds = [Build(folder.resolve()) for folder in arguments.build or [ROOT / "build" / "release"]]
        if arguments.self_test:
            return 1 if self_test(builds) else 0
        mutants = read_list(arguments.list, arguments.only)
        if not mutants:
            raise Unfit(f"no mutant has the words {arguments.only!r}")
        return 1 if try_all(builds, mutants, arguments.jobs) else 0
    except (Unfit, subprocess.CalledProcessError) as problem:
        print(f"cuda_mutants.py: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
