// Names, help and ranges of engine options.
#include "lib/engine/options/option_lists.h"

#include <fmt/format.h>

#include "lib/cache/eviction.h"
#include "lib/engine/options/kv_cache_types.h"
#include "lib/schedule/policy.h"

namespace nvllm {
namespace {

constexpr int32_t kMany = 1'000'000;

template <typename Row>
std::vector<std::string> names_of(std::span<const Row> rows) {
    std::vector<std::string> names;
    for (const Row& row : rows) names.emplace_back(row.name);
    return names;
}

}  // namespace

std::optional<BlockSize> OptionType<BlockSize>::parse(const OptionField&, const std::string& text) {
    if (const auto tokens = parse_integer<int32_t>(text)) {
        if (*tokens < 1 || *tokens > BlockSize::kMaxTokens) return std::nullopt;
        return BlockSize(*tokens);
    }
    const bool is_bytes = text.ends_with('B') || text.ends_with('b');
    const auto bytes = is_bytes ? parse_size(text) : std::nullopt;
    if (!bytes || *bytes == 0) return std::nullopt;
    return BlockSize::of_bytes(*bytes);
}

std::string OptionType<BlockSize>::format(const OptionField&, const BlockSize& value) {
    if (!value.bytes) return std::to_string(value.tokens);
    const std::string text = format_bytes(*value.bytes);
    return text.ends_with('B') ? text : text + "B";
}

std::optional<CpuMask> OptionType<CpuMask>::parse(const OptionField&, const std::string& text) {
    std::optional<CpuList> cpus = parse_cpu_mask(text);
    if (!cpus) return std::nullopt;
    return CpuMask{std::move(*cpus)};
}

// A number alone would be read as a mask.
std::string OptionType<CpuMask>::format(const OptionField&, const CpuMask& value) {
    const std::string text = format_cpu_list(value.cpus);
    return value.cpus.size() == 1 ? text + "-" + text : text;
}

OptionDetail block_size_form() {
    return form(fmt::format("a number of tokens from 1 to {}, or bytes such as 16KB",
                            BlockSize::kMaxTokens));
}

std::vector<std::string> precision_words() {
    return {"auto", "float32", "bfloat16", "float16", "fp32", "bf16", "fp16", "float", "half"};
}

OptionList<EngineConfig> engine_options(WithModel with_model) {
    OptionList<EngineConfig> list("engine");
    list.group("Model");
    if (with_model == WithModel::yes) {
        list.add("model", &EngineConfig::model,
                 "Directory of a Hugging Face checkpoint, or org/name[@revision] in the local "
                 "Hugging Face cache.",
                 short_name('m'), value_name("MODEL"), default_text("the bundled demo"),
                 refuses_empty(), named_once());
    }
    list.add("revision", &EngineConfig::revision,
             "Branch, tag or commit of a model in the cache that is named without one; a folder is "
             "taken as it is.",
             value_name("NAME"), default_text("main"));
    list.add("download-dir", &EngineConfig::download_dir,
             "Folder of the Hugging Face cache; nothing is downloaded.", value_name("DIR"),
             default_text("HF_HUB_CACHE, or what HF_HOME says"));
    list.add("tokenizer", &EngineConfig::tokenizer,
             "Folder or name whose tokenizer and template are used.", value_name("MODEL"),
             default_text("the model's own"));
    list.add("generation-config", &EngineConfig::generation_config,
             "Where sampling defaults come from: auto, the model's generation_config.json; vllm, "
             "nowhere, but for its end tokens; or another folder with that file.",
             value_name("auto|vllm|DIR"), words({"auto", "vllm"}));
    list.add("override-generation-config", &EngineConfig::generation_overrides,
             "Members in place of generation_config.json's, such as {\"temperature\": 0.6}.",
             value_name("JSON"), default_text("none"));
    list.add("dtype", &EngineConfig::dtype, "Type of products and of the key-value cache.",
             choices(precision_words()));
    list.add("quantization", &EngineConfig::quantization,
             "auto: weights as the checkpoint stores them; none: refuse quantized checkpoints; "
             "else the method that the checkpoint must have.",
             choices({"auto", "none", "awq", "gptq", "fp8", "compressed-tensors"}));
    list.add("load-format", &EngineConfig::load_format,
             "dummy: seeded random weights for any config.json, to measure speed.",
             choices({"auto", "safetensors", "dummy"}), unlisted({"metronome"}));
    list.add("load-seed", &EngineConfig::load_seed, "Seed of dummy weights.");
    list.add("repack-cache", &EngineConfig::repack_cache,
             "Keep quantized weights there in the order in which the CPU multiplies them: the next "
             "start maps them instead of making them again.",
             value_name("DIR"), default_text("they are not kept"));
    list.add("chat-template", &EngineConfig::chat_template,
             "Jinja template of conversations: a file, or the text itself.",
             value_name("FILE|TEXT"), default_text("the model's own"));
    list.group("Compute");
    list.add("device", &EngineConfig::device,
             "Where to compute: cpu, cuda for the first GPU that can be used, cuda:1 for that one, "
             "or another module's name; auto: a GPU where there is one, else the CPU.",
             value_name("DEVICE"), words({"auto", "cpu", "cuda"}));
    list.add("batch-invariant", &EngineConfig::batch_invariant,
             "On a GPU, take products and attention in one order whatever is computed beside them, "
             "as the CPU always does: the same answers at any load, somewhat slower.");
    list.add("cuda-graph", &EngineConfig::cuda_graph,
             "On a GPU, run steps in which every answer gets one token as graphs: one call a step "
             "instead of hundreds.");
    list.add("enforce-eager", &EngineConfig::enforce_eager, "The same as --no-cuda-graph.");
    list.add("max-cuda-graph-size", &EngineConfig::max_cuda_graph_size,
             "Answers in a step that runs as a graph, at most.",
             alias("max-cudagraph-capture-size"), range(1, 4096));
    list.add("threads", &EngineConfig::threads, "Compute threads.", short_name('t'), range(0, 1024),
             default_text("one for each physical core, or each processor of --cpu-mask"));
    list.add("cpu-mask", &EngineConfig::cpu_mask,
             "Bind the compute threads to these logical processors, one to each: a hexadecimal "
             "mask such as f, or a list such as 0-3,8 (of one: 5-5).",
             short_name('C'), value_name("MASK|LIST"),
             form("a hexadecimal mask such as f, or a list such as 0-3,8"), default_text("none"));
    list.add_choice(
        "numa", &EngineConfig::numa,
        "Where there are several memory nodes: distribute threads evenly over them and interleave "
        "the memory of cache and scratch; isolate: the node in which the program starts, alone. "
        "Weights that are used in place stay where the page cache has them.",
        std::vector<std::pair<std::string, NumaMode>>{{"auto", NumaMode::automatic},
                                                      {"off", NumaMode::off},
                                                      {"distribute", NumaMode::distribute},
                                                      {"isolate", NumaMode::isolate}},
        default_text("distribute where processors of several nodes may be used"));
    list.add_choice(
        "isolation", &EngineConfig::isolation,
        "process: compute in a process of its own; when it is lost it starts again, and "
        "every answer goes on as if nothing had been.",
        std::vector<std::pair<std::string, Isolation>>{{"thread", Isolation::thread},
                                                       {"process", Isolation::process}});
    list.add("watchdog-timeout", &EngineConfig::watchdog_timeout_s,
             "Seconds that a step may take before its process is killed and started again; 0: no "
             "limit.",
             value_name("SECONDS"), range(0.0, 86400.0));
    list.group("Memory");
    list.add("kv-cache-memory-bytes", &EngineConfig::kv_cache_memory_bytes,
             "Size of the key-value cache, such as 2GiB.", counts_bytes(), at_least(1),
             default_text("4GiB, at most half of what is free"));
    list.add("memory-limit", &EngineConfig::memory_limit_bytes,
             "Most memory for weights, cache, scratch and --swap-space together.", counts_bytes(),
             at_least(1), default_text("none"));
    list.add("gpu-memory-utilization", &EngineConfig::memory_utilization,
             "Share of the device's free memory to plan with, and to fill with the cache; on the "
             "CPU it is that of the machine.",
             range(0.01, 1.0), default_text("0.9; on the CPU all, of which the cache leaves half"));
    list.add("max-blocks", &EngineConfig::max_blocks,
             "Blocks of the key-value cache at most, for each kind of layer.", range(1, INT32_MAX),
             default_text("what fits"));
    list.add("max-model-len", &EngineConfig::max_model_len,
             "Longest prompt and answer together, such as 32k.", takes_suffixes(),
             range(2, INT32_MAX), default_text("the model's own, or what fits"));
    list.add("block-size", &EngineConfig::block_size,
             "Tokens in a block of the key-value cache, or the bytes of cache it may take, such as "
             "16KB: as many tokens as they hold, at least one.",
             block_size_form(), value_name("N|BYTES"));
    list.add(
        "kv-cache-dtype", &EngineConfig::kv_cache_dtype,
        "Type of the key-value cache. fp8 (float8_e4m3, scaled by the checkpoint's k_scale and "
        "v_scale or not at all) and int8 (scaled by each token's heads) take half of 16 bits "
        "and round answers a little.",
        choices(kv_cache_words()),
        default_text(
            "fp8 where the checkpoint has a kv_cache_scheme for it, else that of --dtype"));
    list.add("enable-prefix-caching", &EngineConfig::enable_prefix_caching,
             "Take the blocks of a prompt's beginning from earlier requests that began alike.");
    list.add("eviction-policy", &EngineConfig::eviction_policy,
             "Which cached block that nobody uses is given up first; cost: what is cheapest to "
             "compute again, by how likely it is wanted.",
             choices(names_of(eviction_policies())));
    list.add("swap-space", &EngineConfig::swap_space_bytes,
             "Memory for blocks of sequences that had to give way, such as 4GiB; a number alone "
             "counts GiB, as in vLLM.",
             counts_gib());
    list.add("defrag-threshold", &EngineConfig::defrag_threshold,
             "Move blocks together when so much of the unused ones is scattered; 0: never.",
             range(0.0, 1.0));
    list.group("Scheduling");
    list.add("max-num-seqs", &EngineConfig::max_num_seqs, "Sequences computed in one step.",
             range(1, 65536));
    list.add("max-num-batched-tokens", &EngineConfig::max_num_batched_tokens,
             "Tokens computed in one step; smaller ones let running answers go on more evenly "
             "beside long prompts.",
             takes_suffixes(), range(1, kMany),
             default_text(fmt::format("{}, on a GPU {}; of encoders at least their context",
                                      kCpuSteps.batched_tokens, kDeviceSteps.batched_tokens)));
    list.add("enable-chunked-prefill", &EngineConfig::enable_chunked_prefill,
             "Spread long prompts over several steps.");
    list.add("prefill-chunk-size", &EngineConfig::prefill_chunk_size,
             "Most tokens of one prompt in one step; 0: as many as the step has room for.",
             alias("long-prefill-token-threshold"), range(0, kMany));
    list.add("async-scheduling", &EngineConfig::async_scheduling,
             "On a GPU, plan each step while the one before is computed, wherever its tokens are "
             "chosen there; the same answers. Changes nothing on the CPU.");
    list.add("scheduling-policy", &EngineConfig::scheduling_policy, "Who comes first.",
             choices(names_of(scheduling_policies())));
    list.add("mixed-prefill-tokens", &EngineConfig::mixed_prefill_tokens,
             "Tokens of prompts in a step in which answers go on, up to half more while few do, as "
             "many as answers if those are more: small ones keep answers flowing, large ones let "
             "prompts through; 0: as many as the step has room for.",
             range(0, kMany),
             default_text(fmt::format("0; in nvllm-serve {}, on a GPU {}",
                                      kCpuSteps.mixed_prefill_tokens,
                                      kDeviceSteps.mixed_prefill_tokens)));
    list.add("max-num-partial-prefills", &EngineConfig::max_num_partial_prefills,
             "Prompts that one step may leave unfinished; 0: any number.", range(0, 65536));
    list.add("step-time-target", &EngineConfig::step_time_target_ms,
             "Milliseconds a step should take: the tokens in it follow; 0: no target.",
             value_name("MS"), range(0.0, 60000.0));
    list.add_choice("preemption-mode", &EngineConfig::preemption_mode,
                    "Whether a sequence that has to give way keeps its blocks in --swap-space or "
                    "computes them again; auto: what is expected to be faster.",
                    std::vector<std::pair<std::string, PreemptionMode>>{
                        {"auto", PreemptionMode::automatic},
                        {"recompute", PreemptionMode::recompute},
                        {"swap", PreemptionMode::swap}});
    list.group("Inspection");
    list.add("inspect-socket", &EngineConfig::inspect_socket,
             "Answer nvllm-inspect at this Unix socket, which only you can open.",
             value_name("PATH"), default_text("none"));
    return list;
}

}  // namespace nvllm
