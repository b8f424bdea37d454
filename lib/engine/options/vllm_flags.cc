// The table of vLLM's engine flags, in the order of its --help, and of those it had before.
#include <array>

#include "lib/engine/options/neighbour_flags.h"
#include "lib/engine/options/neighbour_reasons.h"

namespace nvllm {
namespace {

using enum ForeignValues;

constexpr auto kNoCode = "no code of a checkpoint is ever run";
constexpr auto kAsModelSays = "the model's architecture decides what it can answer";
constexpr auto kNoDownload = "nothing is downloaded: 'hf download' brings models into the cache";
constexpr auto kNotQuantized =
    "weights of this kind are not read; float, AWQ, GPTQ, AutoRound, bitsandbytes, block-wise FP8 "
    "and compressed-tensors are";
constexpr auto kNoQuantizingAtStart =
    "weights are not quantized while they are loaded: nvllm-quantize makes such a checkpoint";
constexpr auto kNoSleep = "weights cannot be put aside while the server runs";
constexpr auto kNoPython = "Python code cannot be plugged in";
constexpr auto kOnlyFiles = "weights are read from safetensors files";
constexpr auto kOwnCollectives = "ranks exchange data in one way: there is no such choice";
constexpr auto kLaunchers =
    "a launcher starts the ranks of other machines: --rank-launcher, or nvllm-worker join with "
    "--distributed-executor-backend external";
constexpr auto kReplicasOfServer =
    "--data-parallel-size are all replicas of this server: start one on each machine, and a router "
    "before them";
constexpr auto kExpertLoad =
    "--expert-load and --num-redundant-experts place experts at the start, by a recorded load";
constexpr auto kFixedRanks = "there are as many ranks as at the start";
constexpr auto kOneBatch = "a step is not cut in two, of which one computes while the other sends";
constexpr auto kWholeContexts = "a sequence's context is not divided among ranks";
constexpr auto kOwnKernels = "kernels are chosen by the device and its instruction set";
constexpr auto kNotCompiled = "nothing is compiled at start; --cuda-graph is about graphs";
constexpr auto kOwnStates =
    "states are float32, and kept for others as --state-checkpoint-interval and "
    "--state-checkpoint-borders say";
constexpr auto kNoOffload = "weights are not split between memories: on a GPU they must fit";
constexpr auto kNoReasoning = "nvllm-serve tells reasoning apart from the answer";
constexpr auto kOneGrammarEngine = "there is one grammar engine, and no choice of what it allows";
constexpr auto kNoTraces = "no traces are sent; /metrics and nvllm-inspect tell what happens";
constexpr auto kOwnMetrics = "/metrics always has the same names";
constexpr auto kFixedSchedule = "what a step takes follows from --max-num-batched-tokens";

constexpr auto kVllmFlags = std::to_array<ForeignFlag>({
    // Models.
    foreign_ignored("--runner", one, kAsModelSays, "auto generate pooling"),
    foreign_refused("--runner", one, kAsModelSays),
    foreign_ignored("--convert", one, kAsModelSays, "auto none embed"),
    foreign_refused("--convert", one, "models do not classify or score yet"),
    foreign_ignored("--task", one, kAsModelSays, "auto generate embed embedding"),
    foreign_refused("--task", one, "models do not classify, score or transcribe yet"),
    foreign_ignored("--tokenizer-mode", one, "a tokenizer is read in one way", "auto hf slow fast"),
    foreign_refused("--tokenizer-mode", one,
                    "tokenizer.json, tokenizer.model and tiktoken ranks are read, no others"),
    foreign_ignored("--trust-remote-code", none, kNoCode),
    foreign_ignored("--code-revision", one, kNoCode),
    foreign_refused("--tokenizer-revision", one, "--tokenizer NAME@REVISION says the same"),
    foreign_refused("--hf-config-path --hf-overrides --config-format --model-class-overrides", one,
                    kReadAsItIs, "auto hf {}"),
    foreign_refused("--rope-scaling --rope-theta", one, kReadAsItIs),
    foreign_refused("--allowed-local-media-path --allowed-media-domains", many, kTextOnly),
    foreign_ignored("--max-model-len", one,
                    "without the flag it is the model's own context, or what fits", "auto -1"),
    foreign_alias("-q", one, "quantization"),
    foreign_alias("--quantization -q", one, "quantization=awq", "awq_marlin auto_awq"),
    foreign_alias("--quantization -q", one, "quantization=gptq", "gptq_marlin auto_gptq"),
    foreign_alias("--quantization -q", one, "quantization=auto-round", "inc"),
    foreign_alias("--quantization -q", one, "quantization=mxfp4", "gpt_oss_mxfp4"),
    foreign_alias("--quantization -q", one, "quantization=modelopt", "modelopt_fp4"),
    foreign_refused("--quantization -q", one, kNoQuantizingAtStart, {},
                    "online experts_int8 fp8_per_tensor fp8_per_block fp8_per_channel "
                    "int8_per_channel_weight_only nvfp4_per_token mxfp8 torchao"),
    foreign_refused("--quantization -q", one, kNotQuantized, {},
                    "gguf modelopt_mxfp8 modelopt_mixed "
                    "fbgemm_fp8 fp_quant humming quark moe_wna16 aqlm hqq "
                    "marlin squeezellm deepspeedfp tpu_int8 ipex rtn petit_nvfp4 "
                    "bitblas gptq_bitblas gptq_marlin_24 ptpc_fp8 neuron_quant deepseek_v4_fp8"),
    foreign_refused("--quantization-config --quantization-param-path", one, kReadAsItIs),
    foreign_ignored("--allow-deprecated-quantization", none, "no method is refused for its age"),
    foreign_refused("--return-sampling-mask --enable-return-routed-experts", none,
                    "answers do not tell it"),
    foreign_refused("--max-logprobs", one, "requests may ask for 20 likeliest tokens", "20"),
    foreign_refused("--logprobs-mode", one,
                    "logprobs are those of the model, before temperature and penalties",
                    "raw_logprobs"),
    foreign_ignored("--use-fp64-gumbel", none, "tokens are not drawn with Gumbel noise"),
    foreign_refused("--enable-trace-replay", none, "nvllm-inspect trace replays traces"),
    foreign_refused("--disable-sliding-window", none,
                    "windows are the model's own; --max-model-len up to the window has the same "
                    "effect"),
    foreign_ignored("--disable-cascade-attn", none, kOwnKernels),
    foreign_refused("--skip-tokenizer-init", none, "requests are text"),
    foreign_refused("--enable-prompt-embeds", none, "prompts are text or token ids"),
    foreign_ignored("--hf-token", maybe_one, kNoDownload),
    foreign_refused("--pooler-config --override-pooler-config", one,
                    "pooling is what the model's folder says"),
    foreign_refused("--enable-sleep-mode --sleep-mode-offload-cudagraph", none, kNoSleep),
    foreign_refused("--sleep-mode-backend --sleep-preserve-parameter-names", one, kNoSleep),
    foreign_ignored("--enable-cumem-allocator --enable-nccl-comm-suspend", none, kOwnCollectives),
    foreign_refused("--model-impl", one, "there is one implementation of each model", "auto vllm"),
    foreign_refused("--logits-processors --logits-processor-pattern --io-processor-plugin", many,
                    kNoPython),
    foreign_ignored("--renderer-num-workers", one, "--text-threads of nvllm-serve is about this"),
    // Loading.
    foreign_alias("--load-format", one, "load-format=safetensors",
                  "hf fastsafetensors instanttensor runai_streamer bitsandbytes"),
    foreign_refused("--load-format", one, kOnlyFiles, {},
                    "pt npcache mistral gguf tensorizer sharded_state "
                    "runai_streamer_sharded ipc_cache modelexpress"),
    foreign_ignored("--safetensors-load-strategy --safetensors-prefetch-num-threads "
                    "--safetensors-prefetch-block-size --pt-load-map-location",
                    one, "weights are mapped from their files"),
    foreign_refused("--model-loader-extra-config", one, kOnlyFiles, "{}"),
    foreign_ignored("--ignore-patterns", many, kNoDownload),
    foreign_ignored("--use-tqdm-on-load", none, "loading shows no bar"),
    foreign_ignored("--max-parallel-loading-workers", one, kOwnCollectives),
    // Kernels and compilation.
    foreign_ignored("--attention-backend --moe-backend --linear-backend --gdn-prefill-backend "
                    "--kda-prefill-backend --kda-decode-backend --sparse-indexer-topk-backend "
                    "--attention-config -ac --kernel-config --ir-op-priority",
                    one, kOwnKernels),
    foreign_ignored("--enable-flashinfer-autotune --monokernel", none, kOwnKernels),
    foreign_ignored("--compilation-config -cc -O --optimization-level", one, kNotCompiled),
    foreign_ignored("-O0 -O1 -O2 -O3", none, kNotCompiled),
    foreign_ignored("--cudagraph-capture-sizes --cuda-graph-sizes", many,
                    "--max-cuda-graph-size says up to how many answers steps run as graphs"),
    foreign_ignored("--max-seq-len-to-capture", one, kNotCompiled),
    foreign_ignored("--cudagraph-metrics", none, kOwnMetrics),
    foreign_ignored("--performance-mode", one,
                    "--max-num-batched-tokens and --mixed-prefill-tokens weigh first tokens "
                    "against throughput"),
    foreign_ignored("--mamba-backend --mamba-ssu-algorithm --mamba-cache-philox-rounds "
                    "--mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-block-size "
                    "--mamba-cache-mode --replayssm-buffer-len",
                    one, kOwnStates),
    foreign_ignored("--enable-mamba-cache-stochastic-rounding "
                    "--enable-mamba-shared-prefix-checkpoint --use-replayssm",
                    none, kOwnStates),
    // Several devices and machines.
    foreign_alias("-tp", one, "tensor-parallel-size"),
    foreign_alias("-pp", one, "pipeline-parallel-size"),
    foreign_alias("--distributed-executor-backend", one, "distributed-executor-backend=threads",
                  "mp uni"),
    foreign_alias("--distributed-executor-backend", one, "distributed-executor-backend=external",
                  "external_launcher"),
    foreign_refused("--decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp "
                    "--context-parallel-size -cp",
                    one, kWholeContexts, "1"),
    foreign_alias("-dp", one, "data-parallel-size"),
    foreign_refused("--data-parallel-size-local -dpl", one, kReplicasOfServer, "1"),
    foreign_refused("--data-parallel-rank -dpn --data-parallel-start-rank -dpr "
                    "--data-parallel-address -dpa --data-parallel-rpc-port -dpp",
                    one, kReplicasOfServer, "0"),
    foreign_ignored("--data-parallel-backend -dpb", one, kOwnCollectives),
    foreign_refused("--data-parallel-hybrid-lb -dph --data-parallel-external-lb -dpe "
                    "--data-parallel-multi-port-external-lb -dpm",
                    none, kReplicasOfServer),
    foreign_refused("--nnodes -n", one, kLaunchers, "1"),
    foreign_refused("--node-rank -r", one, kLaunchers, "0"),
    foreign_ignored("--master-addr --master-port --distributed-timeout-seconds "
                    "--cpu-distributed-timeout-seconds",
                    one, kLaunchers),
    foreign_ignored("--worker-use-ray --engine-use-ray --ray-workers-use-nsight "
                    "--disable-custom-all-reduce --disable-nccl-for-dp-synchronization "
                    "--enable-batch-sharded-sampling --enable-shm-tensor-arena --enable-hc-sp "
                    "--dcp-q-replicate",
                    none, kOwnCollectives),
    foreign_ignored("--dcp-comm-backend --dcp-kv-cache-interleave-size "
                    "--cp-kv-cache-interleave-size --dp-sync-interval --all2all-backend "
                    "--expert-placement-strategy",
                    one, kOwnCollectives),
    foreign_alias("-ep", none, "enable-expert-parallel"),
    foreign_refused("--enable-eplb", none, kExpertLoad),
    foreign_refused("--eplb-config", one, kExpertLoad),
    foreign_ignored("--enable-ep-weight-filter", none, "a rank reads its own experts alone"),
    foreign_refused("--enable-elastic-ep", none, kFixedRanks),
    foreign_refused("--elastic-ep-max-dp-size", one, kFixedRanks),
    foreign_refused("--enable-dbo", none, kOneBatch),
    foreign_ignored("--dbo-decode-token-threshold --dbo-prefill-token-threshold --ubatch-size", one,
                    kOneBatch),
    foreign_refused("--device-ids", one, "--device cuda:N names one GPU"),
    foreign_alias("--device", one, "device=cuda", "gpu"),
    foreign_refused("--numa-bind", none, "--numa and --cpu-mask bind threads and memory"),
    foreign_refused("--numa-bind-nodes --numa-bind-cpus", many,
                    "--numa and --cpu-mask bind threads and memory"),
    foreign_refused("--worker-cls --worker-extension-cls --scheduler-cls", one, kNoPython),
    foreign_ignored("--enable-fault-tolerance", none,
                    "--isolation process starts a lost worker again"),
    foreign_refused("--fault-tolerance-config --watchdog-config", one,
                    "--watchdog-timeout and --isolation are about this"),
    // The key-value cache.
    foreign_alias("--device-memory-utilization", one, "gpu-memory-utilization"),
    foreign_alias("--num-gpu-blocks-override", one, "max-blocks"),
    foreign_alias("--kv-cache-dtype", one, "kv-cache-dtype=int8", "int8_per_token_head"),
    foreign_refused("--kv-cache-dtype", one, "keys and values are kept in floats, fp8_e4m3 or int8",
                    {},
                    "fp8_e5m2 fp8_inc fp8_ds_mla nvfp4_ds_mla int4_per_token_head "
                    "fp8_per_token_head nvfp4"),
    foreign_refused("--calculate-kv-scales", none,
                    "scales of fp8 are the checkpoint's: nvllm-quantize --kv-cache-scheme fp8"),
    foreign_refused("--kv-cache-dtype-skip-layers", many, "all layers have one type"),
    foreign_ignored("--prefix-caching-hash-algo", one,
                    "blocks are found by a keyed hash and compared token by token"),
    foreign_ignored("--prefix-cache-retention-interval --prefix-match-unit", one,
                    "--eviction-policy says what is kept"),
    foreign_ignored("--kv-sharing-fast-prefill --swa-bounded-replay", none, kOwnKernels),
    foreign_ignored("--kv-offloading-backend", one, "blocks are kept by the engine itself"),
    foreign_refused("--kv-transfer-config --kv-events-config --ec-transfer-config "
                    "--ec-manager-config",
                    one, "keys and values are not sent to other engines"),
    foreign_refused("--cpu-offload-gb", one, kNoOffload, "0 0.0"),
    foreign_ignored("--offload-backend --offload-group-size --offload-num-in-group "
                    "--offload-prefetch-step",
                    one, kNoOffload),
    foreign_refused("--offload-params --cpu-offload-params", many, kNoOffload),
    // Images, adapters, drafts, grammars.
    foreign_ignored("--limit-mm-per-prompt --media-io-kwargs --mm-processor-kwargs "
                    "--mm-processor-cache-gb --mm-processor-cache-type --mm-hasher-algorithm "
                    "--mm-shm-cache-max-object-size-mb --mm-encoder-tp-mode "
                    "--mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path "
                    "--mm-encoder-fp8-scale-save-path --mm-encoder-fp8-scale-save-margin "
                    "--video-pruning-rate --video-pruning-method --mm-tensor-ipc "
                    "--mm-processor-device --mm-ipc-gpu-memory-gb",
                    one, kTextOnly),
    foreign_ignored("--language-model-only --interleave-mm-strings --skip-mm-profiling "
                    "--mm-device-do-normalize --disable-mm-preprocessor-cache "
                    "--disable-chunked-mm-input",
                    none, kTextOnly),
    foreign_refused("--enable-mm-embeds --mm-encoder-only", none, kTextOnly),
    foreign_ignored("--enable-lora-bias", none, "biases of adapters are always computed"),
    foreign_ignored("--fully-sharded-loras --specialize-active-lora", none,
                    "each rank has its slices, and rows without an adapter cost nothing"),
    foreign_refused("--enable-tower-connector-lora", none, kTextOnly),
    foreign_refused("--enable-mixed-moe-lora-format --enable-moe-shared-loras", none,
                    "experts are adapted each by itself"),
    foreign_refused("--lora-dtype", one,
                    "adapters are kept as they are stored, on a device no wider than its "
                    "activations",
                    "auto"),
    foreign_refused("--lora-extra-vocab-size", one, "adapters add no tokens", "0"),
    foreign_refused("--default-mm-loras --max-lora-cls-labels", one, kTextOnly),
    foreign_refused("--lora-target-modules", many,
                    "an adapter says itself which modules it changes"),
    foreign_refused("--enable-prompt-adapter", none, kNoPromptAdapters),
    foreign_refused("--max-prompt-adapters --max-prompt-adapter-token", one, kNoPromptAdapters),
    foreign_alias("-sc", one, "speculative-config"),
    foreign_alias("--spec-method", one, "speculative-method"),
    foreign_alias("--spec-tokens", one, "num-speculative-tokens"),
    foreign_alias("--speculative-model --spec-model", one, "speculative-method=ngram",
                  "ngram [ngram]"),
    foreign_alias("--speculative-model --spec-model", one, "draft-model"),
    foreign_refused("--speculative-draft-tensor-parallel-size", one,
                    "one rank computes a draft model", "1"),
    foreign_refused("--ngram-prompt-lookup-max --ngram-prompt-lookup-min", one,
                    "prompt_lookup_max and prompt_lookup_min of --speculative-config say it"),
    foreign_refused("--reasoning-parser --reasoning-parser-plugin --reasoning-config", one,
                    kNoReasoning, "none"),
    foreign_refused("--enable-reasoning", none, kNoReasoning),
    foreign_refused("--structured-outputs-config", one, kOneGrammarEngine,
                    "auto xgrammar {\"backend\":\"auto\"} {\"backend\":\"xgrammar\"}"),
    foreign_ignored("--guided-decoding-backend", one, kOneGrammarEngine),
    foreign_ignored("--guided-decoding-disable-fallback", none, kOneGrammarEngine),
    foreign_refused("--guided-decoding-disable-any-whitespace "
                    "--guided-decoding-disable-additional-properties",
                    none, kOneGrammarEngine),
    // Scheduling.
    foreign_alias("--max-num-scheduled-tokens", one, "max-num-batched-tokens"),
    foreign_alias("--max-num-active-seqs", one, "max-num-seqs"),
    foreign_ignored("--max-long-partial-prefills --watermark --watermark-config "
                    "--prefill-schedule-interval --num-lookahead-slots --scheduler-delay-factor "
                    "--num-scheduler-steps",
                    one, kFixedSchedule),
    foreign_ignored("--long-prefill-token-threshold-adaptive --scheduler-reserve-full-isl "
                    "--disable-hybrid-kv-cache-manager --multi-step-stream-outputs "
                    "--use-v2-block-manager --disable-async-output-proc",
                    none, kFixedSchedule),
    foreign_refused("--stream-interval", one, "every token is sent as it comes", "1"),
    // What is told.
    foreign_ignored("--disable-log-stats --aggregate-engine-logging", none,
                    "no figures are logged from time to time; /metrics has them"),
    foreign_ignored("--show-hidden-metrics-for-version --custom-histogram-buckets "
                    "--kv-cache-metrics-sample --jit-monitor-mode",
                    one, kOwnMetrics),
    foreign_ignored("--kv-cache-metrics --enable-mfu-metrics --jit-monitor-verbose "
                    "--per-request-spec-decode-metrics",
                    none, kOwnMetrics),
    foreign_refused("--otlp-traces-endpoint --collect-detailed-traces --profiler-config", one,
                    kNoTraces),
    foreign_ignored("--enable-layerwise-nvtx-tracing --enable-logging-iteration-details", none,
                    kNoTraces),
    foreign_refused("--logging-config --log-config-file", one,
                    "--log-level and --log-format are about the log"),
    foreign_ignored("--fail-on-environ-validation", none,
                    "a wrong variable always ends the program"),
    foreign_refused("--additional-config --aux-output-config --engram-config --diffusion-config "
                    "-dc --weight-transfer-config",
                    one, "nothing here reads it"),
    foreign_ignored("--tokenizer-pool-size --tokenizer-pool-type --tokenizer-pool-extra-config",
                    one, "--text-threads of nvllm-serve is about this"),
});

constexpr auto kNameFlags = std::to_array<ForeignFlag>({
    foreign_refused("--revision", one, "a revision stands behind the name: org/name@REVISION"),
    foreign_refused("--download-dir --cache-dir", one,
                    "HF_HUB_CACHE names the folder of the Hugging Face cache"),
    foreign_ignored("--trust-remote-code", none, kNoCode),
    foreign_ignored("--hf-token", maybe_one, kNoDownload),
    foreign_alias("-hf -hfr --hf-repo", one, "model"),
});

}  // namespace

std::span<const ForeignFlag> hub_name_flags() { return kNameFlags; }

std::span<const ForeignFlag> vllm_engine_flags() { return kVllmFlags; }

}  // namespace nvllm
