#!/usr/bin/env bash
# Proves the CUDA backend on a machine with a GPU, a CUDA toolkit and PyTorch, and brings figures back: every CUDA test on the
# device, compute-sanitizer, the machine's limits, kernels and whole models beside PyTorch. Most valuable first; ends in time.
#   scripts/gpu/bundle.sh && NVLLM_BUNDLE=build/gpu-bundle scripts/gpu_check.sh [--output FOLDER] [--seconds 540]
#   scripts/gpu_check.sh --emulated      without a GPU: the same steps on the emulation, small, to try this script
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B scripts/gpu/check.py "$@"
