// nvllm-inspect trace: a request trace replayed against policies, with no weights.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/options/engine_options.h"
#include "lib/plot/svg_picture.h"
#include "lib/view/trace/trace_runs.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr const char* kExamples =
    "  nvllm-inspect trace conversation_trace.jsonl --kv-gib 16,48 --eviction-policy lru,cost\n"
    "  nvllm-inspect trace mine.jsonl --scheduling-policy all --blocks 512 --json\n"
    "\n"
    "A trace has a JSON object a line: {\"arrival_s\", \"prompt_tokens\" (ids, or how\n"
    "many), \"max_tokens\"}, or Mooncake's {\"timestamp\", \"input_length\",\n"
    "\"output_length\", \"hash_ids\"}. It goes through the scheduler and the cache that\n"
    "engines use; a formula says how long each step takes.\n";

struct TraceOptions {
    std::optional<std::filesystem::path> file;
    std::string scheduling_policy = "fcfs";
    std::string eviction_policy = "all";
    std::string blocks;
    std::string kv_gib;
    uint64_t kv_bytes_per_token = 131072;
    std::optional<BlockSize> block_size;
    int32_t max_num_seqs = 256;
    int32_t max_num_batched_tokens = 8192;
    bool enable_prefix_caching = true;
    double arrival_scale = 1.0;
    std::optional<std::filesystem::path> step_model;
    std::optional<double> step_fixed_ms;
    std::optional<double> step_prefill_token_ms;
    std::optional<double> step_prefill_position_ms;
    std::optional<double> step_decode_sequence_ms;
    int32_t threads = 0;
    bool json = false;
    std::optional<std::string> svg;
};

OptionList<TraceOptions> trace_options() {
    OptionList<TraceOptions> list("inspect");
    list.group("Trace");
    list.add("trace", &TraceOptions::file, "The trace.", value_name("FILE"), positional());
    list.add("arrival-scale", &TraceOptions::arrival_scale,
             "Stretches the times of arrival: 2 halves the load.", range(0.001, 1000.0));
    list.group("Policies and cache");
    list.add("scheduling-policy", &TraceOptions::scheduling_policy,
             "One or several of fcfs, sjf, round-robin, priority, hybrid, or all.",
             value_name("NAMES"));
    list.add("eviction-policy", &TraceOptions::eviction_policy,
             "One or several of lru, lfu, size, cost, or all.", value_name("NAMES"));
    list.add("blocks", &TraceOptions::blocks, "Blocks in the cache; several sizes with commas.",
             value_name("N,..."));
    list.add("kv-gib", &TraceOptions::kv_gib, "The same in GiB.", value_name("GIB,..."),
             default_text("48, without --blocks"));
    list.add("kv-bytes-per-token", &TraceOptions::kv_bytes_per_token,
             "Keys and values of one token.", counts_bytes(), range(1, 1 << 30));
    list.add("block-size", &TraceOptions::block_size,
             "Tokens in a block, or bytes such as 2MB, with --kv-bytes-per-token.",
             block_size_form(), value_name("N|BYTES"),
             default_text("512 for a trace with hashes, else 16"));
    list.add("enable-prefix-caching", &TraceOptions::enable_prefix_caching,
             "Look prompts up in the cache.");
    list.add("max-num-seqs", &TraceOptions::max_num_seqs, "Sequences in one step.",
             range(1, 65536));
    list.add("max-num-batched-tokens", &TraceOptions::max_num_batched_tokens, "Tokens in one step.",
             takes_suffixes(), range(1, 1'000'000));
    list.group("How long a step takes");
    const view::StepModel model;
    const auto ms = [](double value) { return default_text(fmt::format("{}", value)); };
    list.add("step-model", &TraceOptions::step_model,
             "JSON object with fixed_ms, prefill_token_ms, prefill_position_ms, "
             "decode_sequence_ms; flags win.",
             value_name("FILE"));
    list.add("step-fixed-ms", &TraceOptions::step_fixed_ms, "Any step.", range(0.0, 1e6),
             ms(model.fixed_ms));
    list.add("step-prefill-token-ms", &TraceOptions::step_prefill_token_ms,
             "A prompt's token more.", range(0.0, 1e6), ms(model.prefill_token_ms));
    list.add("step-prefill-position-ms", &TraceOptions::step_prefill_position_ms,
             "A prompt's token, for each position before it.", range(0.0, 1e6),
             ms(model.prefill_position_ms));
    list.add("step-decode-sequence-ms", &TraceOptions::step_decode_sequence_ms,
             "A sequence that decodes.", range(0.0, 1e6), ms(model.decode_sequence_ms));
    list.group("Output");
    list.add("threads", &TraceOptions::threads, "Replays at once; 0: one for each core.",
             short_name('t'), range(0, 256));
    list.add("json", &TraceOptions::json, "One JSON object, schema nvllm-inspect.trace/1.");
    list.add("svg", &TraceOptions::svg, "Write a picture too.", value_name("FILE"));
    return list;
}

view::StepModel step_model(const TraceOptions& flags) {
    view::StepModel model;
    if (flags.step_model) model = view::read_step_model(*flags.step_model, model);
    model.fixed_ms = flags.step_fixed_ms.value_or(model.fixed_ms);
    model.prefill_token_ms = flags.step_prefill_token_ms.value_or(model.prefill_token_ms);
    model.prefill_position_ms = flags.step_prefill_position_ms.value_or(model.prefill_position_ms);
    model.decode_sequence_ms = flags.step_decode_sequence_ms.value_or(model.decode_sequence_ms);
    return model;
}

// "256,768" as numbers of blocks, each number times `factor`.
std::vector<int32_t> sizes(const std::string& text, const char* flag, double factor) {
    std::vector<int32_t> blocks;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const auto number = parse_number(text.substr(begin, end - begin));
        const double count = number.value_or(0.0) * factor;
        if (!(count >= 1.0 && count <= 1e8)) {
            throw Error(ErrorKind::usage,
                        fmt::format("{}: '{}' is not a list of sizes that hold 1 to 100 million "
                                    "blocks each",
                                    flag, text));
        }
        blocks.push_back(static_cast<int32_t>(count));
        begin = end + 1;
    }
    return blocks;
}

std::vector<int32_t> cache_sizes(const TraceOptions& flags, int32_t block_size) {
    if (!flags.blocks.empty() && !flags.kv_gib.empty()) {
        throw Error(ErrorKind::usage, "--blocks and --kv-gib say the same: give one of them");
    }
    if (!flags.blocks.empty()) return sizes(flags.blocks, "--blocks", 1.0);
    const double block_bytes = static_cast<double>(flags.kv_bytes_per_token) * block_size;
    return sizes(flags.kv_gib.empty() ? "48" : flags.kv_gib, "--kv-gib",
                 1073741824.0 / block_bytes);
}

int inspect_trace(const Invocation& invocation) {
    TraceOptions flags;
    const auto list = trace_options();
    OptionSet options;
    options.add(list, flags);
    if (answered(invocation, options)) return 0;
    if (!flags.file) throw Error(ErrorKind::usage, "which trace? name a file");
    view::ReplayChoices choices;
    choices.scheduling_policies = view::chosen_names(
        flags.scheduling_policy, view::scheduling_policy_names(), "--scheduling-policy");
    choices.eviction_policies = view::chosen_names(
        flags.eviction_policy, view::eviction_policy_names(), "--eviction-policy");
    view::ReplayConfig config;
    config.step = step_model(flags);
    config.max_num_seqs = flags.max_num_seqs;
    config.max_num_batched_tokens = std::max(flags.max_num_batched_tokens, flags.max_num_seqs);
    config.enable_prefix_caching = flags.enable_prefix_caching;
    view::Trace trace = view::read_trace(*flags.file);
    for (view::TraceRequest& request : trace.requests) request.arrival_s *= flags.arrival_scale;
    config.block_size = flags.block_size.value_or(trace.has_hashes ? view::kPieceTokens : 16)
                            .in_tokens(static_cast<int64_t>(flags.kv_bytes_per_token));
    choices.num_blocks = cache_sizes(flags, config.block_size);
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    view::TraceReport report{&trace, config, flags.kv_bytes_per_token, {}};
    report.tables =
        view::replay_all(trace, config, choices, flags.threads > 0 ? flags.threads : cores);
    if (flags.svg) write_file(*flags.svg, view::trace_svg(report));
    write_output(flags.json ? write_json(view::trace_json(report)) + "\n"
                            : view::trace_text(report));
    return 0;
}

}  // namespace

Command trace_command() {
    return {"trace", "Replays a request trace against scheduling and eviction policies.",
            inspect_trace, kExamples};
}

}  // namespace nvllm::inspect
