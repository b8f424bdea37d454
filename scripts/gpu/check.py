"""Tests, then measurements, of the CUDA backend on one GPU; one JSON and one Markdown file, and lines of results.

Steps come in the order of their worth, each with a time of its own; those that the time left does not allow are named as such. The
files are written anew after each step, so that what was found is kept whatever happens.
"""

import argparse
import os
import pathlib
import sys

from result_lines import result_lines, results
from rows import end_to_end_rows, kernel_rows
from session import Session
from steps import build_tests, find_machine, run_kernel_tests, run_model_tests, run_quantized_models, run_sanitizer

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, default=os.environ.get("NVLLM_BUNDLE"),
                        help="the programs, made by scripts/gpu/bundle.sh; also $NVLLM_BUNDLE")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT", "build/gpu-check")),
                        help="folder of gpu-check.json and gpu-check.md: the raw record, which is not committed")
    parser.add_argument("--results", type=pathlib.Path, help="append a line for each value, such as to docs/results.csv")
    parser.add_argument("--seconds", type=float, default=540, help="of all steps together")
    parser.add_argument("--only", default="", help="steps whose name holds this")
    parser.add_argument("--emulated", action="store_true", help="no GPU: small shapes on the emulation, from build/release")
    options = parser.parse_args()
    if options.bundle is None and not options.emulated:
        parser.error("no programs: make them with scripts/gpu/bundle.sh and name their folder with --bundle or $NVLLM_BUNDLE")
    return options


def main():
    options = arguments()
    session = Session(SOURCE, options)
    session.step("machine", 30, find_machine)
    session.step("build the tests", 200, build_tests)
    session.step("kernels' tests on the device", 90, run_kernel_tests)
    session.step("models on the device beside the CPU", 90, run_model_tests)
    session.step("quantized models on the device beside the CPU", 60, run_quantized_models)
    for name, seconds, measure in [*kernel_rows(options), *end_to_end_rows(options)]:
        session.step(name, seconds, measure)
    session.step("compute-sanitizer", 60, run_sanitizer)
    print(session.markdown())
    if options.results:
        results.append(options.results, result_lines(session.machine, session.results))
    sys.exit(1 if session.failed else 0)


if __name__ == "__main__":
    main()
