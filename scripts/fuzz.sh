#!/usr/bin/env bash
# Builds the fuzz programs with clang and runs each for FUZZ_SECONDS (17) on its corpus in tests/fuzz/corpus, one on each core. New
# inputs go to build/fuzz/found, never into the tree. Arguments: names of targets; none means all.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# The program's path.
fuzz() {
    local name found
    name=$(basename "$1")
    found=build/fuzz/found/$name
    mkdir -p "$found" "tests/fuzz/corpus/$name"
    if ! "$1" -max_total_time="${FUZZ_SECONDS:-17}" -rss_limit_mb=2048 -timeout=10 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$found/" "$found" "tests/fuzz/corpus/$name" >"$found.log" 2>&1; then
        tail -n 40 "$found.log" >&2
        echo "$name found a fault: its input is in $found" >&2
        return 1
    fi
    echo "-- $name: $(grep '^stat::number_of_executed_units' "$found.log")"
}
export -f fuzz

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(build_jobs)" --target fuzz_programs
programs=()
for program in build/fuzz/fuzz/*_fuzz; do
    if [ $# -eq 0 ] || [[ " $* " == *" $(basename "$program") "* ]]; then programs+=("$program"); fi
done
if [ ${#programs[@]} -eq 0 ]; then
    echo "no such target: $*" >&2
    exit 1
fi
printf '%s\0' "${programs[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'set -o pipefail; fuzz {}'
echo "fuzzing: ${#programs[@]} targets, nothing found"
