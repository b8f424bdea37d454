#!/usr/bin/env bash
# nvllm-serve and llama.cpp's llama-server in turn under the same load of nvllm-bench serve: random prompts of 64 tokens of the
# bundled tokenizer (about 75 as servers count), 32 generated, 1, 8, 32 and 128 at once.
# Usage: compare_serve.sh PEER_BIN_DIR CHECKPOINT GGUF [CONCURRENCY...]
set -euo pipefail
cd "$(dirname "$0")/../.."
peer=$1 checkpoint=$2 gguf=$3
shift 3
concurrencies=(${*:-1 8 32 128})
bin=build/release/bin
port=8155
results=$(mktemp -d)
server=
trap 'kill "$server" 2>/dev/null || true; rm -rf "$results"' EXIT
cat "$checkpoint"/*.safetensors "$gguf" >/dev/null

load() { # CONCURRENCY REQUESTS
    "$bin/nvllm-bench" serve --port $port --tokenizer models/demo --random-input-len 64 --random-output-len 32 \
        --num-prompts "$2" --max-concurrency "$1" --metric-percentiles 50,99 --ready-check-timeout-sec 60 \
        --save-result --result-dir "$results" --label "run" 2>/dev/null >"$results/text" || cat "$results/text" >&2
}

figures() { # NAME CONCURRENCY
    python3 - "$results" "$1" "$2" <<'PYTHON'
import json, pathlib, sys
folder, name, concurrency = sys.argv[1:]
newest = max(pathlib.Path(folder).glob("*.json"), key=lambda path: path.stat().st_mtime)
result = json.loads(newest.read_text())
print(f"| {name} | {concurrency} | {result['completed']} of {result['num_prompts']} | {result['output_throughput']:.1f} "
      f"| {result['total_token_throughput']:.1f} | {result['p50_ttft_ms']:.0f} / {result['p99_ttft_ms']:.0f} "
      f"| {result['p50_itl_ms']:.0f} / {result['p99_itl_ms']:.0f} |")
newest.unlink()
PYTHON
}

measure() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$results/log" 2>&1 &
    server=$!
    load 1 2
    rm -f "$results"/*.json
    for concurrency in "${concurrencies[@]}"; do
        load "$concurrency" $((concurrency < 64 ? 2 * concurrency + 4 : concurrency))
        figures "$name" "$concurrency"
    done
    kill "$server"
    wait "$server" 2>/dev/null || true
}

echo "| server | at once | done | output tok/s | all tok/s | first token p50 / p99 ms | gap p50 / p99 ms |"
echo "|---|---|---|---|---|---|---|"
measure nvllm-serve "$bin/nvllm-serve" -m "shape=$checkpoint" --port $port --max-num-seqs 128 --max-model-len 512
measure llama-server "$peer/llama-server" -m "$gguf" --port $port -t "$(nproc)" -np 128 -c $((128 * 160)) --no-webui
