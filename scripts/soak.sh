#!/usr/bin/env bash
# The long tests of the server, and of nvllm-quantize: the fault table's rows at their full sizes, slow clients by slowhttptest,
# rates by wrk, no outgoing connection by strace, and a seeded mix of requests and faults; those of proposed tokens,
# of adapters, and of ranks. NVLLM_BIN
# (build/release/bin) has the programs and test_lib_server; the last three parts build what they
# need: they are what scripts/check.sh leaves out or makes short.
#
#   scripts/soak.sh [PART ...]     all of them when none is named; a part is a function below
#
# SOAK_MINUTES (30): of each of the three mixes. SOAK_SEED: theirs; a fresh one when not set, and printed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

NVLLM_BIN=$(realpath "${NVLLM_BIN:-build/release/bin}")
export NVLLM_BIN
all_parts="rows slow rate egress mixed structured speculation adapters ranks kills sanitized threads fuzz"
parts=${*:-$all_parts}
minutes=${SOAK_MINUTES:-30}
seed=${SOAK_SEED:-$(date +%s)}
work=$(mktemp -d)
server=

# shellcheck disable=SC2086  # a list of words is meant
install_packages $packages_test $packages_soak

step() { printf '\n== %s\n' "$*"; }

# Starts a server with a metronome and these options; sets `server` and `url`.
start_server() {
    # shellcheck disable=SC2086  # a list of words is meant
    NVLLM_METRONOME_MS=$1 $2 "$NVLLM_BIN/nvllm-serve" --model models/demo --load-format metronome --port 0 "${@:3}" \
        2>"$work/log" &
    server=$!
    url=
    for _ in $(seq 200); do
        url=$(sed -n 's/.*listening at //p' "$work/log")
        if [ -n "$url" ] && curl -sf -o /dev/null "$url/ready"; then return; fi
        sleep 0.05
    done
    cat "$work/log" >&2
    return 1
}

stop_server() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
        server=
    fi
}

end() {
    stop_server
    rm -rf "$work"
}
trap end EXIT

rows() {
    step "rows at their full sizes"
    local name
    for name in connections framing overload process recovery; do
        NVLLM_SOAK=1 python3 -B "tests/end_to_end/test_serve_$name.py"
    done
    NVLLM_SOAK=1 python3 -B tests/end_to_end/test_quantize_safety.py
    NVLLM_SOAK=1 "$NVLLM_BIN/test_lib_server" --test-case="want of memory*"
}

# Rows N5: 500 connections for 20 s in each of slowhttptest's four ways; a new client is served all the while.
slow() {
    step "slow clients"
    local mode ended
    for mode in "-H -i 3 /openapi.json" "-B -i 3 -s 8192 -f application/json /v1/completions" \
        "-R -t HEAD -a 10 -b 3000 /openapi.json" "-X -w 8 -y 16 -n 3 -z 8 -k 1 /openapi.json"; do
        start_server 1 env --header-timeout 10 --body-timeout 10 --write-timeout 10
        # shellcheck disable=SC2086  # a list of words is meant
        slowhttptest ${mode% *} -c 500 -r 200 -l 20 -p 3 -u "$url${mode##* }" >"$work/slow" 2>&1 &
        ended=$!
        : >"$work/times"
        while kill -0 "$ended" 2>/dev/null; do
            curl -s -o /dev/null -w '%{http_code} %{time_total}\n' --max-time 5 "$url/live" >>"$work/times" || true
            sleep 0.1
        done
        wait "$ended" || true
        if grep -aq 'service available:.*NO' "$work/slow" || grep -qv '^200 ' "$work/times"; then
            tail -n 20 "$work/slow" >&2
            echo "slowhttptest $mode: a new client was not served" >&2
            return 1
        fi
        sort -k2 -n "$work/times" | awk -v mode="$mode" '{ t[NR] = $2 } END {
            printf "slowhttptest %s: %d new clients served, p50 %.1f ms, most %.1f ms\n", mode, NR,
                   t[int((NR + 1) / 2)] * 1000, t[NR] * 1000 }'
        stop_server
    done
}

cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }

# How fast small answers are, server and client each on a core of its own; figures only.
rate() {
    step "rates"
    local what out before
    cat >"$work/post.lua" <<'LUA'
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"prompt":[30,31,32],"max_tokens":1,"temperature":0}'
LUA
    start_server 0 "taskset -c 0" --max-num-seqs 256
    for what in "/health" "/v1/completions -s $work/post.lua"; do
        before=$(cpu_ticks)
        # shellcheck disable=SC2086  # a list of words is meant
        out=$(taskset -c 1 wrk -t1 -c64 -d10s --latency "$url"$what)
        echo "$out" | awk -v what="${what%% *}" -v ticks=$(($(cpu_ticks) - before)) -v hertz="$(getconf CLK_TCK)" '
            /50%/ { p50 = $2 } /99%/ { p99 = $2 } /requests in/ { count = $1 } /Requests\/sec/ { rate = $2 }
            END { printf "%s: %s requests/s, p50 %s, p99 %s, %.1f us of CPU a request\n", what, rate, p50, p99, ticks / hertz / count * 1e6 }'
    done
    stop_server
}

# Goal R9: the server connects to nobody, whatever it is asked. The tracer is a grandchild (-D): signals and the process id are
# the server's own.
egress() {
    step "no outgoing connection"
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec strace -D -f -qq -e trace=connect -o %s/connects.$$ %s/nvllm-serve "$@"\n' "$work" "$NVLLM_BIN" \
        >"$work/bin/nvllm-serve"
    chmod +x "$work/bin/nvllm-serve"
    NVLLM_BIN=$work/bin python3 -B tests/end_to_end/test_serve_framing.py
    NVLLM_BIN=$work/bin python3 -B tests/end_to_end/test_serve_overload.py Full
    if [ -z "$(find "$work" -name 'connects.*')" ]; then
        echo "strace wrote nothing" >&2
        return 1
    fi
    if grep -h 'AF_INET' "$work"/connects.*; then
        echo "the server connected to somebody" >&2
        return 1
    fi
    echo "no connect() to an internet address under the tests of framing and overload"
}

# Row K6.
mixed() {
    step "mixed requests and faults, seed $seed"
    python3 -B tests/end_to_end/soak.py --minutes "$minutes" --seed "$seed"
    python3 -B tests/end_to_end/soak.py --minutes "$minutes" --seed "$seed" --clients 12 --model models/demo
    python3 -B tests/end_to_end/soak.py --minutes "$minutes" --seed "$seed" --clients 12 --model models/demo --isolation process
}

# 10,000 answers under 50 schemas, again with too few blocks and with workers that are killed, and some on the emulated device.
structured() {
    step "structured output, seed $seed"
    local soak="python3 -B tests/end_to_end/soak_structured.py --seed $seed"
    $soak
    $soak --blocks 96
    $soak --kill-every 5
    if [ -e "$NVLLM_BIN/../test_modules/libnanovllm_cuda_emulated.so" ]; then
        $soak --answers 20 --max-tokens 200 --device cuda_emulated --model models/demo-draft
    else
        echo "this build has no emulated device"
    fi
}

# Adapters that come, change and go under 64 streams, with workers that are killed.
adapters() {
    step "adapters, seed $seed"
    python3 -B tests/end_to_end/soak_adapters.py --minutes "$minutes" --seed "$seed"
}

ranks() {
    step "ranks: every family and scheme over MPI, proposed tokens, and 20 kills"
    NVLLM_TEST_OVER_MPI=1 python3 -B tests/end_to_end/test_ranks.py
    NVLLM_TEST_WITH_TENSOR_PARALLEL_SIZE=2 python3 -B tests/end_to_end/test_speculation.py
    NVLLM_TEST_KILLS=20 python3 -B tests/end_to_end/test_rank_recovery.py
}

# Programs that end while they write blocks of the prefix cache to files.
kills() {
    step "200 kills while files are written"
    NVLLM_TEST_KILLS=200 python3 -B tests/end_to_end/test_prefix_cache_dir.py Folders.test_killed_while_it_writes
}

# Equal answers with proposed tokens under random settings, and 10,000 draws of each sampler setting.
speculation() {
    step "proposed tokens, seed $seed"
    python3 -B tests/end_to_end/soak_speculation.py --minutes "$minutes" --seed "$seed"
    if [ -e "$NVLLM_BIN/../test_modules/libnanovllm_cuda_emulated.so" ]; then
        python3 -B tests/end_to_end/soak_speculation.py --minutes "$minutes" --seed "$seed" --requests 8 \
            --device cuda_emulated --model models/demo-draft
    else
        echo "this build has no emulated device"
    fi
    NVLLM_SOAK=1 python3 -B tests/end_to_end/test_speculation_distribution.py
}

# The tests of the sanitized build that are too long for scripts/check.sh.
sanitized() {
    step "long tests under AddressSanitizer and UndefinedBehaviorSanitizer"
    cmake --preset dev >/dev/null
    cmake --build --preset dev -j "$(build_jobs)"
    ctest --test-dir build/dev --output-on-failure -j 2 -L soak
}

threads() {
    step "all threads under ThreadSanitizer"
    scripts/check_threads.sh
}

# Each target for ten minutes.
fuzz() {
    step "fuzzing"
    FUZZ_SECONDS=${FUZZ_SECONDS:-600} scripts/fuzz.sh
}

for part in $parts; do
    case " $all_parts " in
        *" $part "*) "$part" ;;
        *) echo "no part '$part'; there are: $all_parts" >&2; exit 64 ;;
    esac
done
