#!/usr/bin/env bash
# Installs what a build needs, builds all programs in Release, and lets the bundled model write. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# shellcheck disable=SC2086  # a list of words is meant
install_packages $packages_build
if [ ! -f build/release/build.ninja ]; then
    cmake --preset release >/dev/null
fi
echo "Building; on two cores that takes some ten minutes, the first time." >&2
cmake --build --preset release -j "$(build_jobs)"

echo >&2
echo "$ build/release/bin/nvllm-run -p \"Once upon a time\" -n 120 --seed 1" >&2
build/release/bin/nvllm-run -p "Once upon a time" -n 120 --seed 1
