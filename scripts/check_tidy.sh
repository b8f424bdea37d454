#!/usr/bin/env bash
# Runs the short clang-tidy list over the source files that the last commits changed (NVLLM_TIDY_COMMITS, 20), or with --all
# over every one of the library and the programs. A clone without that much history is checked whole.
set -euo pipefail
cd "$(dirname "$0")/.."
commits=${NVLLM_TIDY_COMMITS:-20}
cmake --preset release >/dev/null

sources() { find kernels lib tools -name '*.cc' | sort; }
changed() {
    git diff --name-only --diff-filter=d "HEAD~$commits" -- kernels lib tools | grep '\.cc$' || true
}
if [ "${1:-}" != --all ] && git rev-parse --quiet --verify "HEAD~$commits" >/dev/null; then
    files=$(changed)
else
    files=$(sources)
fi
# A merge may bring more than there is time for: then every second, third ... file.
most=${NVLLM_TIDY_FILES:-120}
every=$((($(printf '%s\n' "$files" | grep -c .) + most - 1) / most))
[ "$every" -gt 0 ] || every=1
[ "${1:-}" = --all ] || files=$(printf '%s\n' "$files" | awk -v every="$every" 'NR % every == 0')
echo "$(printf '%s' "$files" | grep -c . || true) of $(sources | wc -l) files"
# Kernels for one instruction set are compiled with flags that clang-tidy takes from the same database.
printf '%s' "$files" | tr '\n' '\0' | xargs -0 -r -n 4 -P "$(nproc)" clang-tidy-14 -p build/release --quiet 2>/dev/null
