// Every flag of vLLM's and llama.cpp's servers is known, and each row of the tables says something.
#include "lib/server/config/neighbour_flags.h"

#include <doctest/doctest.h>

#include <set>

#include "lib/cli/command_line.h"
#include "lib/engine/options/engine_options.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/server/config/server_config.h"
#include "tests/error_of.h"

namespace nvllm::server {
namespace {

// clang-format off
// What "vllm serve" of version 0.33 takes.
constexpr const char* kVllm[] = {
    "--additional-config", "--aggregate-engine-logging", "--all2all-backend",
    "--allow-credentials", "--allow-deprecated-quantization", "--allowed-headers",
    "--allowed-local-media-path", "--allowed-media-domains", "--allowed-methods",
    "--allowed-origins", "--anthropic-disabled-thinking-effort", "--api-key", "--api-server-count",
    "--async-scheduling", "--attention-backend", "--attention-config", "--aux-output-config",
    "--block-size", "--chat-template", "--chat-template-content-format", "--code-revision",
    "--cohere-format", "--cohere-is-reasoning-model", "--collect-detailed-traces",
    "--compilation-config", "--config-format", "--convert", "--cp-kv-cache-interleave-size",
    "--cpu-distributed-timeout-seconds", "--cpu-offload-gb", "--cpu-offload-params",
    "--cudagraph-capture-sizes", "--cudagraph-metrics", "--custom-histogram-buckets",
    "--data-parallel-address", "--data-parallel-backend", "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb", "--data-parallel-multi-port-external-lb", "--data-parallel-rank",
    "--data-parallel-rpc-port", "--data-parallel-size", "--data-parallel-size-local",
    "--data-parallel-start-rank", "--data-parallel-supervisor-port",
    "--dbo-decode-token-threshold", "--dbo-prefill-token-threshold", "--dcp-comm-backend",
    "--dcp-kv-cache-interleave-size", "--dcp-q-replicate", "--decode-context-parallel-size",
    "--default-chat-template-kwargs", "--default-mm-loras", "--device-ids",
    "--device-memory-utilization", "--diffusion-config", "--disable-access-log-for-endpoints",
    "--disable-cascade-attn", "--disable-chunked-mm-input", "--disable-custom-all-reduce",
    "--disable-fastapi-docs", "--disable-hybrid-kv-cache-manager", "--disable-log-stats",
    "--disable-nccl-for-dp-synchronization", "--disable-sliding-window",
    "--disable-uvicorn-access-log", "--distributed-executor-backend",
    "--distributed-timeout-seconds", "--download-dir", "--dp-supervisor-probe-failure-threshold",
    "--dp-supervisor-probe-interval-s", "--dp-supervisor-probe-timeout-s", "--dp-sync-interval",
    "--dtype", "--ec-manager-config", "--ec-transfer-config", "--elastic-ep-max-dp-size",
    "--enable-auto-tool-choice", "--enable-batch-sharded-sampling", "--enable-chunked-prefill",
    "--enable-cumem-allocator", "--enable-dbo", "--enable-elastic-ep", "--enable-ep-weight-filter",
    "--enable-eplb", "--enable-expert-parallel", "--enable-fault-tolerance",
    "--enable-flash-late-interaction", "--enable-flashinfer-autotune",
    "--enable-force-include-usage", "--enable-hc-sp", "--enable-layerwise-nvtx-tracing",
    "--enable-log-deltas", "--enable-log-outputs", "--enable-log-requests",
    "--enable-logging-iteration-details", "--enable-lora",
    "--enable-mamba-cache-stochastic-rounding", "--enable-mamba-shared-prefix-checkpoint",
    "--enable-mfu-metrics", "--enable-mixed-moe-lora-format", "--enable-mm-embeds",
    "--enable-moe-shared-loras", "--enable-nccl-comm-suspend", "--enable-offline-docs",
    "--enable-per-request-metrics", "--enable-prefix-caching", "--enable-prompt-embeds",
    "--enable-prompt-tokens-details", "--enable-request-id-headers",
    "--enable-return-routed-experts", "--enable-scale-out", "--enable-server-load-tracking",
    "--enable-shm-tensor-arena", "--enable-sleep-mode", "--enable-ssl-refresh",
    "--enable-tokenizer-info-endpoint", "--enable-tower-connector-lora", "--enable-trace-replay",
    "--enforce-eager", "--engram-config", "--eplb-config", "--exclude-tools-when-tool-choice-none",
    "--expert-placement-strategy", "--fail-on-environ-validation", "--fault-tolerance-config",
    "--fingerprint-mode", "--fingerprint-value", "--fully-sharded-loras", "--gdn-prefill-backend",
    "--generation-config", "--gpu-memory-utilization", "--grpc", "--grpc-port",
    "--h11-max-header-count", "--h11-max-incomplete-event-size", "--headless", "--hf-config-path",
    "--hf-overrides", "--hf-token", "--host", "--ignore-patterns", "--interleave-mm-strings",
    "--io-processor-plugin", "--ir-op-priority", "--jit-monitor-mode", "--jit-monitor-verbose",
    "--kda-decode-backend", "--kda-prefill-backend", "--kernel-config", "--kv-cache-dtype",
    "--kv-cache-dtype-skip-layers", "--kv-cache-memory-bytes", "--kv-cache-metrics",
    "--kv-cache-metrics-sample", "--kv-events-config", "--kv-offloading-backend",
    "--kv-offloading-size", "--kv-sharing-fast-prefill", "--kv-transfer-config",
    "--language-model-only", "--limit-mm-per-prompt", "--linear-backend", "--load-format",
    "--log-config-file", "--log-error-stack", "--log-level", "--logging-config",
    "--logits-processors", "--logprobs-mode", "--long-prefill-token-threshold",
    "--long-prefill-token-threshold-adaptive", "--lora-dtype", "--lora-modules",
    "--lora-target-modules", "--mamba-backend", "--mamba-block-size", "--mamba-cache-dtype",
    "--mamba-cache-mode", "--mamba-cache-philox-rounds", "--mamba-ssm-cache-dtype",
    "--mamba-ssu-algorithm", "--master-addr", "--master-port", "--max-cpu-loras",
    "--max-cudagraph-capture-size", "--max-log-len", "--max-logprobs", "--max-lora-cls-labels",
    "--max-lora-rank", "--max-loras", "--max-model-len", "--max-num-active-seqs",
    "--max-num-batched-tokens", "--max-num-queued-reqs", "--max-num-queued-tokens",
    "--max-num-scheduled-tokens", "--max-num-seqs", "--max-parallel-loading-workers",
    "--media-io-kwargs", "--middleware", "--mm-device-do-normalize", "--mm-encoder-attn-backend",
    "--mm-encoder-attn-dtype", "--mm-encoder-fp8-scale-path", "--mm-encoder-fp8-scale-save-margin",
    "--mm-encoder-fp8-scale-save-path", "--mm-encoder-only", "--mm-encoder-tp-mode",
    "--mm-hasher-algorithm", "--mm-ipc-gpu-memory-gb", "--mm-processor-cache-gb",
    "--mm-processor-cache-type", "--mm-processor-device", "--mm-processor-kwargs",
    "--mm-shm-cache-max-object-size-mb", "--mm-tensor-ipc", "--model", "--model-class-overrides",
    "--model-impl", "--model-loader-extra-config", "--moe-backend", "--monokernel", "--nnodes",
    "--node-rank", "--num-gpu-blocks-override", "--numa-bind", "--numa-bind-cpus",
    "--numa-bind-nodes", "--offload-backend", "--offload-group-size", "--offload-num-in-group",
    "--offload-params", "--offload-prefetch-step", "--optimization-level",
    "--otlp-traces-endpoint", "--override-generation-config", "--per-request-spec-decode-metrics",
    "--performance-mode", "--pipeline-parallel-size", "--pooler-config", "--port",
    "--prefill-context-parallel-size", "--prefill-schedule-interval",
    "--prefix-cache-retention-interval", "--prefix-caching-hash-algo", "--prefix-match-unit",
    "--profiler-config", "--pt-load-map-location", "--quantization", "--quantization-config",
    "--ray-workers-use-nsight", "--reasoning-config", "--reasoning-effort-map",
    "--reasoning-parser", "--reasoning-parser-plugin", "--renderer-num-workers",
    "--replayssm-buffer-len", "--response-role", "--return-sampling-mask",
    "--return-tokens-as-token-ids", "--revision", "--root-path", "--runner",
    "--safetensors-load-strategy", "--safetensors-prefetch-block-size",
    "--safetensors-prefetch-num-threads", "--scheduler-cls", "--scheduler-reserve-full-isl",
    "--scheduling-policy", "--seed", "--served-model-name", "--show-hidden-metrics-for-version",
    "--shutdown-timeout", "--skip-mm-profiling", "--skip-tokenizer-init", "--sleep-mode-backend",
    "--sleep-mode-offload-cudagraph", "--sleep-preserve-parameter-names",
    "--sparse-indexer-topk-backend", "--spec-method", "--spec-model", "--spec-tokens",
    "--specialize-active-lora", "--speculative-config", "--sse-keep-alive-interval",
    "--ssl-ca-certs", "--ssl-cert-reqs", "--ssl-certfile", "--ssl-ciphers", "--ssl-keyfile",
    "--stream-interval", "--structured-outputs-config", "--swa-bounded-replay",
    "--tensor-parallel-size", "--tokenizer", "--tokenizer-mode", "--tokenizer-revision",
    "--tokens-only", "--tool-call-parser", "--tool-parser-plugin", "--tool-server",
    "--tool-strict-level", "--trust-remote-code", "--trust-request-chat-template",
    "--trust-request-mm-kwargs", "--ubatch-size", "--uds", "--use-fp64-gumbel", "--use-replayssm",
    "--use-tqdm-on-load", "--uvicorn-log-level", "--video-pruning-method", "--video-pruning-rate",
    "--watchdog-config", "--watermark", "--watermark-config", "--weight-transfer-config",
    "--worker-cls", "--worker-extension-cls", "-ac", "-asc", "-cc", "-dc", "-dcp", "-dp", "-dpa",
    "-dpb", "-dpe", "-dph", "-dpl", "-dpm", "-dpn", "-dpp", "-dpr", "-ep", "-n", "-pcp", "-pp",
    "-q", "-r", "-sc", "-tp",
};

// What it took before.
constexpr const char* kOldVllm[] = {
    "--task", "--disable-log-requests", "--swap-space", "--rope-scaling", "--rope-theta",
    "--num-scheduler-steps", "--use-v2-block-manager", "--max-seq-len-to-capture",
    "--guided-decoding-backend", "--enable-reasoning", "--speculative-model",
    "--num-speculative-tokens", "--worker-use-ray", "--device", "--tokenizer-pool-size",
    "--quantization-param-path", "--preemption-mode", "--max-num-partial-prefills",
    "--max-long-partial-prefills", "--override-pooler-config",
    "--disable-frontend-multiprocessing", "--calculate-kv-scales", "--enable-prompt-adapter",
    "--lora-extra-vocab-size",
};

// What people start llama-server with.
constexpr const char* kLlama[] = {
    "-c", "--ctx-size", "-b", "-ub", "-np", "-ctk", "-ctv", "-ngl", "--n-gpu-layers", "-sm", "-mg",
    "-ts", "-fa", "--mlock", "--no-mmap", "-hf", "-md", "--lora", "--mmproj", "--jinja",
    "--chat-template-file", "-a", "--alias", "--no-webui", "--embeddings", "--metrics", "--slots",
    "-t", "-m", "-s", "--temp", "--n-predict", "--grammar", "-cb", "--parallel", "--reasoning-format",
};
// clang-format on

struct Program {
    ServerConfig server;
    EngineConfig engine;
    OptionSet options;

    Program() {
        options.add(server_options(), server);
        options.add(engine_options(WithModel::no), engine);
        for (const auto& table : tables()) options.add_foreign(table);
    }

    static std::vector<std::span<const ForeignFlag>> tables() {
        return {vllm_serve_flags(), vllm_engine_flags(), llama_server_flags(),
                llama_cpp_engine_flags()};
    }

    bool has(const std::string& flag) {
        if (flag.starts_with("--")) return options.find(flag.substr(2)) != nullptr;
        for (const BoundOption& option : options.all()) {
            if (flag.size() == 2 && option.field().short_name == flag[1]) return true;
        }
        return false;
    }
};

// Whether the command line is taken, or refused in words of a table.
void check_is_known(const std::string& flag) {
    CAPTURE(flag);
    Program program;
    if (program.has(flag)) return;
    const std::vector<std::string> arguments = {flag, "1"};
    try {
        const auto reading = program.options.read_foreign(arguments, false);
        REQUIRE(reading);
        CHECK((!reading->note.empty() || !reading->instead.empty()));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        const std::string message = error.what();
        CHECK(message.starts_with(flag));
        CHECK(message.find("no such option") == std::string::npos);
        CHECK(message.find("unknown option") == std::string::npos);
    }
}

TEST_CASE("neighbours' flags: every one is known") {
    for (const char* flag : kVllm) check_is_known(flag);
    for (const char* flag : kOldVllm) check_is_known(flag);
    for (const char* flag : kLlama) check_is_known(flag);
}

TEST_CASE("neighbours' flags: each row says what holds here") {
    for (const auto& table : Program::tables()) {
        for (const ForeignFlag& row : table) {
            CAPTURE(row.flags);
            CHECK(!words_of(row.flags).empty());
            CHECK(row.text.size() > 3);
            if (row.meaning != ForeignMeaning::alias) {
                CHECK(row.text.find(' ') != std::string_view::npos);
                continue;
            }
            std::string option(row.text.substr(0, row.text.find('=')));
            if (option == "model") continue;
            Program program;
            if (option.starts_with("no-")) option.erase(0, 3);
            REQUIRE(program.options.find(option) != nullptr);
            const size_t equals = row.text.find('=');
            if (equals == std::string_view::npos) continue;
            const std::vector<std::string> values = {std::string(row.text.substr(equals + 1))};
            program.options.find(option)->set(values, OptionOrigin::flag, "", ErrorKind::usage);
        }
    }
}

TEST_CASE("neighbours' flags: what a start command of vLLM becomes") {
    Program program;
    const std::vector<std::string> arguments = {"org/name",
                                                "--served-model-name",
                                                "a",
                                                "b",
                                                "-tp",
                                                "2",
                                                "--dtype",
                                                "half",
                                                "--max-model-len",
                                                "auto",
                                                "--gpu-memory-utilization",
                                                "0.8",
                                                "--swap-space",
                                                "4",
                                                "--trust-remote-code",
                                                "--disable-log-requests",
                                                "--num-gpu-blocks-override",
                                                "99",
                                                "--allowed-origins",
                                                "[\"*\"]",
                                                "--load-format",
                                                "runai_streamer",
                                                "--kv_cache_dtype",
                                                "fp8",
                                                "-O3",
                                                "--uvicorn-log-level",
                                                "warning",
                                                "--compilation-config.level",
                                                "3"};
    resolve_settings(program.options, parse_command_line(arguments, program.options),
                     [](const std::string&) { return std::nullopt; });
    CHECK(program.server.served.models == std::vector<std::string>{"org/name"});
    CHECK(program.server.served.served_model_names == std::vector<std::string>{"a", "b"});
    CHECK(program.server.filter.allowed_origins == std::vector<std::string>{"*"});
    CHECK(program.server.log.level == "warning");
    CHECK(program.engine.model.dtype == "half");
    CHECK(program.engine.memory.swap_bytes == uint64_t{4} << 30);
    CHECK(program.engine.memory.max_blocks == 99);
    CHECK(program.engine.compute.parallel.tensor == 2);
    CHECK(program.engine.model.load_format == "safetensors");
    CHECK(!program.engine.memory.max_model_len);
    CHECK(program.options.take_notes().size() == 5);
}

TEST_CASE("neighbours' flags: values that ask for what there is not") {
    using Arguments = std::vector<std::string>;
    for (const Arguments& arguments :
         {Arguments{"-dpl", "2"}, Arguments{"--quantization", "hqq"},
          Arguments{"--kv-cache-dtype", "fp8_e5m2"}, Arguments{"--load-format", "gguf"},
          Arguments{"--runner", "draft"}, Arguments{"--lora-dtype", "bfloat16"},
          Arguments{"--tool-server", "demo"}, Arguments{"-ngl", "99"}}) {
        Program program;
        const std::string message = test::error_of(
            ErrorKind::usage, [&] { parse_command_line(arguments, program.options); });
        CAPTURE(message);
        CHECK(message.starts_with(arguments[0]));
        CHECK(message.find("is not one of") == std::string::npos);
        CHECK(message.find("did you mean") == std::string::npos);
    }
}

}  // namespace
}  // namespace nvllm::server
