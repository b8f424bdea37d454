#!/usr/bin/env bash
# Counts the instructions of every op of the CPU backend and of the host's hot paths under callgrind, on the AVX2 path (valgrind
# knows no AVX-512), and compares them with tests/counts/expected.json. Counts are the same on a busy machine and an idle one.
# --update writes the counts down instead. About 30 s of CPU time besides the build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# shellcheck disable=SC2086  # a list of words is meant
install_packages $packages_build $packages_test $packages_counts
cmake --preset release -DNVLLM_BUILD_TESTS=ON >/dev/null
cmake --build --preset release -j "$(build_jobs)" --target count_instructions

compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' build/release/CMakeCache.txt)
dumps=build/release/counts
rm -rf "$dumps"
mkdir "$dumps"
# An empty environment: nothing of this shell's reaches the program or its C library.
env -i NVLLM_ISA=avx2 "$(command -v valgrind)" --quiet --tool=callgrind --instr-atstart=no --combine-dumps=yes \
    --callgrind-out-file="$dumps/%p" build/release/bin/count_instructions models/demo
python3 -B tests/counts/compare.py "$dumps" tests/counts/expected.json "$@" \
    --tool "compiler=$("$compiler" --version | sed '1s/^c++ /g++ /; q')" \
    --tool "libc=$(getconf GNU_LIBC_VERSION)" \
    --tool "valgrind=$(valgrind --version)"
