"""A run of gpu_check: what its steps share, and what they found."""

import json
import os
import pathlib
import subprocess
import time


class Missing(Exception):
    """Something that a step needs is not on this machine."""


class Session:
    def __init__(self, source, options):
        self.source, self.options = source, options
        self.begin = time.monotonic()
        self.results = []  # of the steps, in their order: name, outcome, seconds, and what they say
        self.machine = {}
        self.limits = None  # the machine's, once they are measured
        self.failed = False
        self.bundle = None if options.bundle is None else pathlib.Path(options.bundle).absolute()
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "tests.txt").unlink(missing_ok=True)

    @property
    def device(self):
        return "cuda_emulated" if self.options.emulated else "cuda"

    def left(self):
        return self.options.seconds - (time.monotonic() - self.begin)

    def step(self, name, seconds, action):
        """Runs action(self, seconds) unless there is no time for it; `seconds` is what it may take."""
        if self.options.only not in name:
            return
        begin = time.monotonic()
        result = {"step": name}
        if self.left() < min(seconds, 20):
            result["outcome"] = f"not run: {self.left():.0f} s were left"
        else:
            try:
                result.update({"outcome": "done", **(action(self, min(seconds, self.left())) or {})})
            except Missing as missing:
                result["outcome"] = f"not run: {missing}"
            except subprocess.TimeoutExpired as late:
                result["outcome"] = f"not finished in {late.timeout:.0f} s"
                self.failed = True
            except (subprocess.CalledProcessError, OSError, KeyError, ValueError) as failure:
                result["outcome"] = f"failed: {said(failure)}"
                self.failed = True
        result["seconds"] = round(time.monotonic() - begin, 1)
        self.results.append(result)
        print(f"[{time.monotonic() - self.begin:4.0f} s] {name}: {result['outcome']}", flush=True)
        self.write()

    def run(self, command, seconds, **more):
        """The standard output of a command."""
        environment = {**os.environ, **more.pop("environment", {})}
        done = subprocess.run(list(map(str, command)), cwd=self.source, env=environment, timeout=max(seconds, 1), check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        return done.stdout

    def program(self, name):
        """How one of ours is started."""
        if self.options.emulated:
            return [self.source / "build" / "release" / "bin" / name]
        return [self.bundle / "run", name]

    def environment(self):
        """Where our programs find the CUDA module."""
        if self.options.emulated:
            return {"NVLLM_BACKEND_PATH": str(self.source / "build" / "release" / "test_modules")}
        return {}

    def write(self):
        whole = {"machine": self.machine, "steps": self.results}
        (self.options.output / "gpu-check.json").write_text(json.dumps(whole, indent=1) + "\n")
        (self.options.output / "gpu-check.md").write_text(self.markdown())

    def markdown(self):
        lines = ["# The CUDA backend on a GPU", ""]
        lines += [f"- {key}: {value}" for key, value in self.machine.items()]
        lines += ["", "| step | outcome | s |", "|---|---|---|"]
        lines += [f"| {r['step']} | {r['outcome']} | {r['seconds']} |" for r in self.results]
        for result in self.results:
            if result.get("table"):
                lines += ["", f"## {result['step']}", "", *table(result["table"])]
        return "\n".join(lines) + "\n"


def said(failure):
    """The last lines of what a failed command said."""
    text = getattr(failure, "stderr", None) or getattr(failure, "stdout", None) or str(failure)
    return " / ".join(text.strip().splitlines()[-4:]) or str(failure)


def table(rows):
    """Rows as dictionaries with equal keys, in Markdown."""
    keys = list(rows[0])
    yield "| " + " | ".join(keys) + " |"
    yield "|" + "---|" * len(keys)
    for row in rows:
        yield "| " + " | ".join(cell(row.get(key)) for key in keys) + " |"


def cell(value):
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
