#!/usr/bin/env bash
# Runs the short clang-tidy list over every source file of the library and the programs.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
# Kernels for one instruction set are compiled with flags that clang-tidy takes from the same database.
find kernels lib tools -name '*.cc' -print0 | xargs -0 -n 4 -P "$(nproc)" clang-tidy-14 -p build/release --quiet 2>/dev/null
