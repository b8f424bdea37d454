"""The steps of gpu_check that prove: what machine this is, the tests on the device, compute-sanitizer."""

import os
import re
import shutil
import subprocess

from session import Missing

# Small tests that together use every primitive.
SANITIZED = "cuda: *,*registers*,*copies*,*shuffle*"


def build_folder(session):
    return session.source / "build" / ("release" if session.options.emulated else "gpu-tests")


def find_machine(session, seconds):
    def ask(*command):
        try:
            return session.run(command, seconds).strip()
        except (OSError, subprocess.CalledProcessError):
            return "not found"

    machine = session.machine
    machine["commit"] = ask("git", "rev-parse", "--short", "HEAD")
    machine["compiler"] = (ask("nvcc", "--version").splitlines() or [""])[-1]
    if session.options.emulated:
        machine["device"] = "none: the emulation on the host"
        return
    fields = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,power.limit,compute_cap"
    values = session.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], seconds).splitlines()[0].split(", ")
    machine.update(zip(["device", *fields.split(",")[1:]], values))
    machine["torch"] = ask("python3", "-c", "import torch; print(torch.__version__)")
    machine["doctor"] = session.run([*session.program("nvllm-inspect"), "doctor"], seconds)


def build_tests(session, seconds):
    if session.options.emulated:
        session.run(["ninja", "-C", build_folder(session), "test_cuda_emulated"], seconds)
        return
    if not shutil.which("cmake"):
        raise Missing("cmake")
    architecture = session.machine["compute_cap"].replace(".", "")
    suffix = "a-real" if int(architecture) >= 90 else "-real"
    session.run(["cmake", "-S", "tests/kernels/cuda/on_device", "-B", build_folder(session), "-DCMAKE_BUILD_TYPE=Release",
                 f"-DCMAKE_CUDA_ARCHITECTURES={architecture}{suffix}", f"-DNVLLM_HEADERS={session.options.bundle}/headers"], seconds)
    session.run(["cmake", "--build", build_folder(session), "-j", os.cpu_count()], seconds)


def test_program(session):
    if session.options.emulated:
        return build_folder(session) / "bin" / "test_cuda_emulated"
    return build_folder(session) / "test_cuda_device"


def run_tests(session, seconds):
    said = session.run([test_program(session)], seconds, environment={"CUDA_LAUNCH_BLOCKING": "1"})
    return {"tests": re.findall(r"test cases:.*|assertions:.*", said)}


def run_sanitizer(session, seconds):
    if session.options.emulated or not shutil.which("compute-sanitizer"):
        raise Missing("compute-sanitizer")
    found = {}
    for tool in ("memcheck", "racecheck"):
        said = session.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", test_program(session), f"-tc={SANITIZED}"],
                           seconds / 2)
        found[tool] = said.strip().splitlines()[-1]
    return found
