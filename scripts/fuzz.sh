#!/usr/bin/env bash
# Builds the fuzz programs with clang and runs each for FUZZ_SECONDS (17) on its corpus in tests/fuzz/corpus. New inputs go to
# build/fuzz/found, never into the tree. Arguments: names of targets; none means all.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(build_jobs)" --target fuzz_programs
count=0
for program in build/fuzz/fuzz/*_fuzz; do
    name=$(basename "$program")
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    found=build/fuzz/found/$name
    mkdir -p "$found" "tests/fuzz/corpus/$name"
    echo "-- $name"
    if ! "$program" -max_total_time="${FUZZ_SECONDS:-17}" -rss_limit_mb=2048 -timeout=10 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$found/" "$found" "tests/fuzz/corpus/$name" >"$found.log" 2>&1; then
        tail -n 40 "$found.log" >&2
        echo "$name found a fault: its input is in $found" >&2
        exit 1
    fi
    grep '^stat::number_of_executed_units' "$found.log"
    count=$((count + 1))
done
echo "fuzzing: $count targets, nothing found"
