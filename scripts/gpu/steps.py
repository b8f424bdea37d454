"""The steps of gpu_check that prove: what machine this is, the tests on the device, quantized models, compute-sanitizer."""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time

from session import Missing

# Files of small tests that together use every primitive.
SANITIZED = ("hopper_test", "matrix_test", "memory_test", "warp_test", "norm_test", "moe_test", "sampling_test", "kv_cache_test")
EMULATION_ONLY = ("counters_test.cc", "launch_test.cc", "planted_bugs_test.cc")
QUANTIZED = ("W4A16", "W8A8", "FP8_DYNAMIC")
# Mean divergence of bfloat16 on the device from the CPU's float32: where activations are rounded to 8 bits some become neighbouring codes.
MOST_DIVERGENCE = 0.02


def build_folder(session):
    return session.source / "build" / ("release" if session.options.emulated else "gpu-tests")


def find_machine(session, seconds):
    def ask(*command):
        try:
            return session.run(command, seconds).strip()
        except (OSError, subprocess.CalledProcessError):
            return "not found"

    machine = session.machine
    carried = session.bundle and session.bundle / "commit"
    machine["commit"] = carried.read_text().strip() if carried and carried.exists() else ask("git", "rev-parse", "--short", "HEAD")
    machine["compiler"] = (ask("nvcc", "--version").splitlines() or [""])[-1]
    machine["torch"] = ask("python3", "-c", "import torch; print(torch.__version__)")
    if session.options.emulated:
        machine["device"] = "none: the emulation on the host"
        return
    fields = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,power.limit,compute_cap"
    values = session.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], seconds).splitlines()[0].split(", ")
    machine.update(zip(["device", *fields.split(",")[1:]], values))
    machine["doctor"] = session.run([*session.program("nvllm-inspect"), "doctor"], seconds)


def test_program(session):
    if session.options.emulated:
        return build_folder(session) / "bin" / "test_cuda_emulated"
    carried = session.bundle / "bin" / "test_cuda_device"
    return carried if carried.exists() else build_folder(session) / "test_cuda_device"


def build_tests(session, seconds):
    if session.options.emulated:
        session.run(["ninja", "-C", build_folder(session), "test_cuda_emulated"], seconds)
        return
    if test_program(session).parent == session.bundle / "bin":
        return {"tests": "came with the bundle"}
    if not shutil.which("cmake"):
        raise Missing("cmake")
    architecture = session.machine["compute_cap"].replace(".", "")
    suffix = "a-real" if int(architecture) >= 90 else "-real"
    session.run(["cmake", "-S", "tests/kernels/cuda/on_device", "-B", build_folder(session), "-DCMAKE_BUILD_TYPE=Release",
                 f"-DCMAKE_CUDA_ARCHITECTURES={architecture}{suffix}", f"-DNVLLM_HEADERS={session.bundle}/headers"], seconds)
    session.run(["cmake", "--build", build_folder(session), "-j", os.cpu_count()], seconds)


def kernel_tests(session):
    """The tests of each file in a process of its own: what a kernel leaves broken is its file's alone."""
    for file in sorted((session.source / "tests" / "kernels" / "cuda").glob("*_test.cc")):
        if not session.options.emulated and file.name in EMULATION_ONLY:
            continue
        yield file.stem, [test_program(session), f"-sf=*/{file.name}"], {"CUDA_LAUNCH_BLOCKING": "1"}


def model_tests(session):
    """Whole models on the device beside the CPU, each case in a process of its own."""
    if session.options.emulated:
        raise Missing("a GPU; the test command does the same on the emulation")
    modules = session.options.output / "modules"
    modules.mkdir(exist_ok=True)
    link = modules / "libnanovllm_cuda.so"
    link.unlink(missing_ok=True)
    link.symlink_to(session.bundle / "lib" / link.name)
    folder = session.source / "tests" / "end_to_end"
    environment = {"NVLLM_BIN": str(session.bundle / "bin"), "NVLLM_TEST_MODULES": str(modules.absolute()), "PYTHONPATH": str(folder),
                   "LD_LIBRARY_PATH": str(session.bundle / "lib")}
    for case in re.findall(r"def (test_\w+)", (folder / "test_device.py").read_text()):
        yield case, [sys.executable, "-B", "-m", "unittest", f"test_device.Devices.{case}"], environment


def run_all(session, jobs, seconds, at_once):
    """Names by how they ended. What those that did not pass said comes to tests.txt."""
    end = time.monotonic() + seconds

    def outcome(job):
        name, command, environment = job
        try:
            done = subprocess.run(list(map(str, command)), cwd=session.source, env={**os.environ, **environment}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            return name, "late", (late.stdout or b"").decode(errors="replace")
        ran_nothing = re.search(r"test cases: +0 |Ran 0 tests", done.stdout) is not None
        how = "failed" if done.returncode != 0 or ran_nothing else "skipped" if "skipped=" in done.stdout else "passed"
        return name, how, done.stdout

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(outcome, jobs))
    with open(session.options.output / "tests.txt", "a") as file:
        file.writelines(f"== {name}: {how}\n{text}\n" for name, how, text in outcomes if how != "passed")
    ended = {how: [name for name, found, _ in outcomes if found == how] for how in ("passed", "skipped", "failed", "late")}
    if ended["failed"] or ended["late"]:
        raise ValueError(f"{len(ended['passed'])} passed; failed: {', '.join(ended['failed'])}; late: {', '.join(ended['late'])}")
    return {"ended": ended, "table": [{how: len(names) for how, names in ended.items()}]}


def run_kernel_tests(session, seconds):
    return run_all(session, kernel_tests(session), seconds, 2 if session.options.emulated else 8)


def run_model_tests(session, seconds):
    return run_all(session, model_tests(session), seconds, 8)


def run_quantized_models(session, seconds):
    """The bundled demo, quantized: its predictions on the device beside the CPU's, windows of 512 tokens. Rows of many tokens go by way of
    dense matrices or of codes; with --batch-invariant all go by our kernels."""
    end = time.monotonic() + seconds
    table = []

    def run(program, *arguments):
        return session.run([*session.program(program), *arguments], end - time.monotonic(), environment=session.environment())

    folder = (session.options.output / "quantized").absolute()
    folder.mkdir(exist_ok=True)
    size = ["-c", 200, "--chunks", 1] if session.options.emulated else ["-c", 512, "--chunks", 16]
    for scheme in QUANTIZED:
        model, base, result = folder / scheme, folder / f"{scheme}.base", folder / "result.json"
        shutil.rmtree(model, ignore_errors=True)
        run("nvllm-quantize", "--scheme", scheme, "--method", "rtn", "-o", model)
        run("nvllm-bench", "perplexity", "-m", model, "-f", "docs/notes/cpu.md", "--device", "cpu", *size, "--save-all-logits", base)
        for ways in ([], ["--batch-invariant"]):
            run("nvllm-bench", "perplexity", "-m", model, "--kl-divergence", "--kl-divergence-base", base, "--device", session.device,
                *ways, "--output-json", result)
            found = json.loads(result.read_text())
            table.append({"scheme": scheme, "options": " ".join(ways), **{key: found[key] for key in ("mean_kld", "max_kld", "same_top")}})
    worst = max(row["mean_kld"] for row in table)
    if worst > MOST_DIVERGENCE:
        raise ValueError(f"a mean divergence of {worst}: {table}")
    return {"table": table}


def run_sanitizer(session, seconds):
    if session.options.emulated or not shutil.which("compute-sanitizer"):
        raise Missing("compute-sanitizer")
    jobs = [(f"{tool} {name}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *command], environment)
            for name, command, environment in kernel_tests(session) if name in SANITIZED for tool in ("memcheck", "racecheck")]
    return run_all(session, jobs, seconds, 8)
