"""The rows: what each side of one does in a turn, which of its figures counts, and what the machine would allow."""

import json
import tempfile

from foreign_load import ForeignLoad
from machine import Failed
from programs import Ours, Script, Test
from servers import under_load, workload, write_requests

FOREIGN_SHARE = 0.4


class Row:
    """`lower` says that less is better; `further` names figures that the second table shows."""
    unit, lower, further = "tok/s", False, ()

    def __init__(self, name, programs, options):
        self.name, self.programs, self.options = name, programs, options
        self.models = {program.name: program.model for program in programs}
        self.vocab_size = json.loads((options.checkpoint / "config.json").read_text())["vocab_size"]

    def sides(self):
        """Name of each side and what it does in a turn; ours come first and peers() are the others."""
        return {program.name: lambda program=program: self.turn(program) for program in self.programs if self.takes(program)}

    def peers(self):
        return [program.name for program in self.programs if self.takes(program) and not isinstance(program, Ours)]

    def takes(self, program):
        return program.supports(self.test)

    def limit(self, _):
        """What the machine would allow in that turn; None where nobody knows."""
        return None


class Rate(Row):
    """tg128, tg128@4096, pp512, batch8: tokens a second of the programs' own benches."""

    def __init__(self, name, *rest):
        super().__init__(name, *rest)
        self.test = Test.named(name)

    def turn(self, program):
        return program.rate(self.test)

    def limit(self, turn):
        """Prefill by arithmetic, decode by whichever of memory and arithmetic allows less."""
        test, model, read_gb_s = self.test, self.models[turn["side"]], turn["read_gb_s"]
        gflop_s = turn["int8_gop_s" if model.is_integer else "gflop_s"]
        if test.kind == "pp":
            return gflop_s * 1e9 / model.flop_of_prompt(test.count)
        batch = test.count if test.kind == "batch" else 1
        context = test.depth + test.count / 2 if test.kind == "tg" else 128 + 32
        by_memory = batch * read_gb_s * 1e9 / (model.weight_bytes + batch * context * model.kv_bytes)
        return min(by_memory, gflop_s * 1e9 / model.flop_of_token(context))


class Load(Row):
    """load40:tg128: how much more is lost beside a foreign load than the CPU time that it takes; 1 would be none."""
    unit, lower, further = "x", True, ("slowdown", "lost_share")

    def __init__(self, name, *rest):
        super().__init__(name, *rest)
        self.test = Test.named(name.split(":")[1])

    def turn(self, program):
        alone = program.rate(self.test)
        with ForeignLoad(FOREIGN_SHARE) as load:
            beside = program.rate(self.test)
        slowdown = alone["value"] / beside["value"]
        return {"value": slowdown * (1 - load.share), "slowdown": slowdown, "lost_share": load.share, "alone": alone["value"],
                "beside": beside["value"]}


class Memory(Row):
    """memory:tg128: peak resident memory, and how much of it was no mapped file."""
    unit, lower, further = "MiB", True, ("anonymous_mib",)

    def __init__(self, name, *rest):
        super().__init__(name, *rest)
        self.test = Test.named(name.split(":")[1])

    def turn(self, program):
        found = program.rate(self.test, sample_memory=True)
        return {**found, "value": found["max_rss_mib"]}


class Start(Row):
    """start: a process with a prompt of one token, from its start to its end after one token."""
    unit, lower = "s", True

    def takes(self, program):
        return not isinstance(program, Script)

    def turn(self, program):
        return program.first_token()


class Served(Row):
    """server32, prefix: the requests of a workload at once, from each program's server."""

    def __init__(self, name, *rest):
        super().__init__(name, *rest)
        self.figure, self.unit, self.further = {
            "server32": ("total_tokens_per_s", "tok/s", ("ttft_p99_ms", "gap_median_ms", "gap_longest_ms", "gap_longest_to_median")),
            "prefix": ("requests_per_s", "req/s", ("slots",)),
            "nanovllm": ("output_tokens_per_s", "tok/s", ("share_of_work",)),
        }[name]
        self.requests = workload(name, self.vocab_size)
        self.best_slots = {}

    def takes(self, program):
        return not isinstance(program, Script)

    def turn(self, program):
        slots = self.slots_of(program)
        return {**self.with_slots(program, slots), "slots": slots}

    def with_slots(self, program, slots):
        found = under_load(program, self.requests, slots, self.options.checkpoint, self.vocab_size)
        return {**found, "value": found[self.figure]}

    def slots_of(self, program):
        """Where prompts share a prefix, a peer's slots each hold their own copy: the number that serves it best is looked for."""
        if self.name != "prefix" or isinstance(program, Ours):
            return len(self.requests)
        if program.name not in self.best_slots:
            tried = {slots: self.with_slots(program, slots)["value"] for slots in self.options.prefix_slots}
            self.best_slots[program.name] = max(tried, key=tried.get)
        return self.best_slots[program.name]


class NanoVllm(Served):
    """nanovllm: 32 requests of 100 to 512 tokens each way: ours without and with a server, servers, and scripts."""

    def sides(self):
        with_file = [program for program in self.programs if isinstance(program, (Ours, Script))]
        served = [program for program in self.programs if not isinstance(program, Script)]
        sides = {program.name: lambda program=program: self.from_file(program) for program in with_file}
        sides |= {f"{program.name}'s server": lambda program=program: self.turn(program) for program in served}
        return sides

    def peers(self):
        ours = [program.name for program in self.programs if isinstance(program, Ours)]
        return [name for name in self.sides() if name.removesuffix("'s server") not in ours]

    def from_file(self, program):
        with tempfile.TemporaryDirectory() as folder:
            return program.requests(write_requests(self.requests, folder, "requests"), len(self.requests))


def make_row(name, programs, options):
    kinds = {"load40": Load, "memory": Memory, "start": Start, "server32": Served, "prefix": Served, "nanovllm": NanoVllm}
    kind = kinds.get(name.split(":")[0], Rate)
    if kind in (Load, Memory) and ":" not in name:
        raise Failed(f"{name}: names no test; such as {name}:tg128")
    return kind(name, programs, options)
