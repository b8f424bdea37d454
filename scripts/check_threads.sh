#!/usr/bin/env bash
# Builds test programs under ThreadSanitizer and runs them. Arguments: their names; none means all that have threads.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

programs=${*:-test_lib_engine test_lib_execute test_lib_base test_lib_system test_thread_pool}
cmake --preset tsan >/dev/null
# shellcheck disable=SC2086  # a list of words is meant
cmake --build --preset tsan -j "$(build_jobs)" --target $programs
# AVX2's kernels are the instrumented ones (cmake/rooms.cmake).
# shellcheck disable=SC2086
printf '%s\n' $programs | xargs -P "$(build_jobs)" -I{} env NVLLM_ISA=avx2 build/tsan/bin/{}
