#!/usr/bin/env bash
# Installs what the tests need, builds everything in Release, and runs every test. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# shellcheck disable=SC2086  # a list of words is meant
install_packages $packages_build $packages_test
cmake --preset release -DNVLLM_BUILD_TESTS=ON >/dev/null
cmake --build --preset release -j "$(build_jobs)"
ctest --test-dir build/release --output-on-failure -j 2 "$@"
