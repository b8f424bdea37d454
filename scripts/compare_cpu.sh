#!/usr/bin/env bash
# Ours and peers' programs in turn on the same weights, beside probes of the machine: scripts/measure/compare/main.py says how.
# Usage: compare_cpu.sh CHECKPOINT GGUF --peer NAME=BIN_DIR[,OPTION...] [OPTIONS]; --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(build_jobs)" --target nvllm-bench nvllm-serve nvllm-worker nvllm-run nvllm-probe >/dev/null
exec python3 -B scripts/measure/compare/main.py "$@"
