#!/usr/bin/env bash
# Start, prefill and decode of nvllm-run on a checkpoint (FOLDER) that lies in the page cache, each beside a probe of the
# machine taken seconds before. Usage: run.sh FOLDER [REPEATS]. Figures of a busy machine mean little: the share of CPU time
# that others took is printed with each row.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
repeats=${2:-5}
cmake --build --preset release --target nvllm-run nvllm-probe >/dev/null
cat "$folder"/*.safetensors >/dev/null

python3 - "$folder" "$repeats" <<'PYTHON'
import json, os, statistics, subprocess, sys

folder, repeats = sys.argv[1], int(sys.argv[2])
config = json.load(open(f"{folder}/config.json"))
ids = ",".join(str(5 + (37 * i) % (config["vocab_size"] - 10)) for i in range(512))
size = sum(os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder) if name.endswith(".safetensors"))
embedding = config["vocab_size"] * config["hidden_size"]
prompt_flop = 2 * (size / 2 - embedding)  # a prompt token: every weight but the embedding; attention left out


def ticks():
    fields = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return sum(fields) - fields[3] - fields[4], sum(fields)


def run(*arguments):
    before, spent = ticks(), os.times()
    done = subprocess.run(["build/release/bin/nvllm-run", "-m", folder, "--ignore-eos", "--temperature", "0", "--max-model-len",
                           "2048", "--output-format", "json", "--show-timings", *arguments], capture_output=True, text=True,
                          check=True)
    after, own = ticks(), os.times()
    ours = (own.children_user + own.children_system - spent.children_user - spent.children_system) * os.sysconf("SC_CLK_TCK")
    others = max(0.0, (after[0] - before[0] - ours) / max(1, after[1] - before[1]))
    start = next(line for line in done.stderr.splitlines() if "started in" in line)
    return json.loads(done.stdout)["timings"], start.split(": ", 1)[1], others


def probe():
    return json.loads(subprocess.run(["build/release/bin/nvllm-probe"], capture_output=True, text=True, check=True).stdout)


prefill, decode, starts = [], [], []
for _ in range(repeats):
    limits = probe()
    timings, start, others = run("--prompt-ids", ids, "-n", "33")
    peak = max(limits["float32_gflop_s"], limits["bfloat16_gflop_s"])
    prefill.append((timings["prompt_per_second"], timings["prompt_per_second"] * prompt_flop / 1e9 / peak))
    decode.append((timings["predicted_per_second"], timings["predicted_per_second"] * size / 1e9 / limits["read_gb_s"]))
    one, phases, _ = run("--prompt-ids", "5", "-n", "1")
    starts.append((one["load_ms"], one["ttft_ms"]))
    print(f"others {100 * others:4.1f} %  probe {limits}  prefill {prefill[-1][0]:6.1f} tok/s {100 * prefill[-1][1]:4.0f} %  "
          f"decode {decode[-1][0]:5.2f} tok/s {100 * decode[-1][1]:4.0f} %  {phases}; first token after {one['ttft_ms']:.1f} ms")
middle = lambda rows, column: statistics.median(row[column] for row in rows)
print(f"median: start {middle(starts, 0):.1f} ms, then {middle(starts, 1):.1f} ms to the first token; "
      f"prefill (512) {middle(prefill, 0):.1f} tok/s, {100 * middle(prefill, 1):.0f} % of the arithmetic peak; "
      f"decode {middle(decode, 0):.2f} tok/s, {100 * middle(decode, 1):.0f} % of the read bandwidth")
PYTHON
