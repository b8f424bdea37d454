#!/usr/bin/env bash
# The slower checks: layers, sizes and words, formatting, a short clang-tidy list over what changed lately, instruction counts beside the expected
# ones, the shorter tests under AddressSanitizer and UndefinedBehaviorSanitizer, threads under ThreadSanitizer, and fuzzing.
# FUZZ_SECONDS sets the time for each fuzz target (5). What takes longer is in scripts/soak.sh. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# shellcheck disable=SC2086  # a list of words is meant
install_packages $packages_build $packages_test $packages_check $packages_counts
jobs=$(build_jobs)

step() { printf '\n== %s (%d s so far)\n' "$*" "$SECONDS"; }

step "layers and sizes"
scripts/check_layers.py
scripts/check_house.py

step "formatting"
find kernels lib tools tests -name '*.h' -o -name '*.cc' -o -name '*.cu' | xargs -n 50 -P "$jobs" clang-format-14 --dry-run --Werror

step "clang-tidy"
scripts/check_tidy.sh

step "instruction counts"
scripts/check_counts.sh

step "tests under AddressSanitizer and UndefinedBehaviorSanitizer"
cmake --preset dev >/dev/null
cmake --build --preset dev -j "$jobs"
UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/dev --output-on-failure -j 2 -LE soak

step "threads and queues under ThreadSanitizer"
scripts/check_threads.sh test_lib_base test_lib_system test_thread_pool

step "quantized models in transformers"
if python3 -c 'import compressed_tensors, transformers, torch' 2>/dev/null; then
    python3 scripts/fixtures/check_quantized.py build/release
else
    echo "left out: compressed-tensors, transformers and torch are not installed here"
fi

step "fuzzing"
FUZZ_SECONDS=${FUZZ_SECONDS:-5} scripts/fuzz.sh
