// Numbers of a plan, and what other flags would change.
#include "tools/inspect/plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/view/text_table.h"

namespace nvllm::inspect {
namespace {

using Json = nlohmann::ordered_json;

uint64_t total_bytes(const MemoryPlan& plan) {
    return plan.weight_bytes + plan.scratch_bytes + plan.kv_bytes + plan.swap_bytes;
}

uint64_t group_bytes(const MemoryPlan& plan, size_t group) {
    return plan.block_bytes()[group] * static_cast<uint64_t>(plan.num_blocks[group]);
}

const char* kind_name(CacheLayout::Kind kind) {
    switch (kind) {
        case CacheLayout::Kind::paged_kv:
            return "paged_kv";
        case CacheLayout::Kind::latent:
            return "latent";
        case CacheLayout::Kind::state:
            return "state";
    }
    return "";
}

Json groups_json(const MemoryPlan& plan) {
    Json groups = Json::array();
    for (size_t g = 0; g < plan.groups.size(); ++g) {
        const CacheLayout& group = plan.groups[g];
        groups.push_back({{"kind", kind_name(group.kind)},
                          {"layers", group.layers},
                          {"kv_heads", group.kv_heads},
                          {"head_dim", group.head_dim},
                          {"window", group.window},
                          {"bytes_per_token", plan.bytes_per_token(g)},
                          {"bytes_per_state", group.bytes_per_state()},
                          {"num_blocks", plan.num_blocks[g]},
                          {"bytes", group_bytes(plan, g)}});
    }
    return groups;
}

// What to change for more of what is short.
std::vector<std::string> advice(const MemoryPlan& plan) {
    if (!plan.shortage.empty()) return {};
    std::vector<std::string> lines;
    if (plan.whole_prompts) {
        if (plan.max_concurrency >= plan.max_num_seqs) return lines;
        return {fmt::format("--max-num-batched-tokens {} lets {} prompts of {} tokens share a step",
                            int64_t{plan.max_num_seqs} * plan.max_model_len, plan.max_num_seqs,
                            plan.max_model_len)};
    }
    if (plan.longest_context > plan.max_model_len) {
        lines.push_back(
            fmt::format("--max-model-len {} is the longest context of which one "
                        "sequence fits this cache",
                        plan.longest_context));
    }
    if (plan.max_concurrency < plan.max_num_seqs && !plan.max_blocks) {
        lines.push_back(fmt::format("--kv-cache-memory-bytes {} holds {} sequences of {} tokens",
                                    plan.kv_bytes_for_all, plan.max_num_seqs, plan.max_model_len));
    }
    if (plan.max_concurrency < plan.max_num_seqs && plan.longest_shared_context >= 2) {
        lines.push_back(fmt::format("--max-model-len {} lets {} sequences fit this cache",
                                    plan.longest_shared_context, plan.max_num_seqs));
    }
    return lines;
}

void add_groups(const MemoryPlan& plan, view::TextSheet& sheet) {
    std::vector<std::vector<std::string>> rows = {
        {"layers", "kv heads", "head dim", "window", "bytes a token", "blocks", "size"}};
    for (size_t g = 0; g < plan.groups.size(); ++g) {
        const CacheLayout& group = plan.groups[g];
        if (group.is_state()) {
            rows.push_back({std::to_string(group.layers.size()), "states", "", "",
                            with_separators(group.bytes_per_state()) + " a slot",
                            with_separators(plan.num_blocks[g]) + " slots",
                            describe_bytes(group_bytes(plan, g))});
            continue;
        }
        rows.push_back({std::to_string(group.layers.size()), std::to_string(group.kv_heads),
                        std::to_string(group.head_dim),
                        group.window > 0 ? with_separators(group.window) : "none",
                        with_separators(plan.bytes_per_token(g)),
                        with_separators(plan.num_blocks[g]), describe_bytes(group_bytes(plan, g))});
    }
    sheet.gap();
    sheet.table(rows, ">>>>>>>");
    sheet.gap();
}

// Neighbours that have as much are one phrase.
std::string describe_ranks(const std::vector<RankMemory>& ranks) {
    std::string text;
    for (size_t first = 0; first < ranks.size();) {
        size_t end = first + 1;
        while (end < ranks.size() && ranks[end] == ranks[first]) ++end;
        text += fmt::format(
            "{}{}: {} of weights, {} of kv cache{}", first == 0 ? "" : "; ",
            end == first + 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, end - 1),
            describe_bytes(ranks[first].weight_bytes), describe_bytes(ranks[first].kv_bytes),
            end == first + 1 ? "" : " each");
        first = end;
    }
    return text;
}

Json ranks_json(const MemoryPlan& plan) {
    Json ranks = Json::array();
    for (const RankMemory& rank : plan.ranks) {
        ranks.push_back({{"weight_bytes", rank.weight_bytes}, {"kv_cache_bytes", rank.kv_bytes}});
    }
    return ranks;
}

void add_memory(const MemoryPlan& plan, view::TextSheet& sheet) {
    const std::string of_adapters =
        plan.adapter_bytes == 0
            ? ""
            : fmt::format(", of them {} for adapters", describe_bytes(plan.adapter_bytes));
    sheet.row("weights", describe_bytes(plan.weight_bytes) + of_adapters);
    sheet.row("scratch", describe_bytes(plan.scratch_bytes));
    sheet.row("kv cache",
              fmt::format("{} of at most {}: {} tokens of {} bytes ({}), blocks of {}",
                          describe_bytes(plan.kv_bytes), describe_bytes(plan.kv_budget_bytes),
                          with_separators(plan.kv_tokens), with_separators(plan.kv_bytes_per_token),
                          dtype_name(plan.kv_dtype), plan.block_size));
    if (plan.num_replicas > 1) {
        sheet.row("replicas", fmt::format("{}, each with all of this", plan.num_replicas));
    }
    if (!plan.ranks.empty()) sheet.row("ranks", describe_ranks(plan.ranks));
    if (plan.swap_bytes > 0) sheet.row("host blocks", describe_bytes(plan.swap_bytes));
    sheet.row("in all", fmt::format("{}; {} is free{}", describe_bytes(total_bytes(plan)),
                                    describe_bytes(plan.available_bytes),
                                    plan.device.empty() ? "" : " on " + plan.device));
}

}  // namespace

nlohmann::ordered_json plan_json(const MemoryPlan& plan, const std::string& model) {
    Json json = {{"schema", "nvllm-inspect.plan/1"},
                 {"model", model},
                 {"fits", plan.shortage.empty()},
                 {"weight_bytes", plan.weight_bytes},
                 {"adapter_bytes", plan.adapter_bytes},
                 {"scratch_bytes", plan.scratch_bytes},
                 {"kv_cache_bytes", plan.kv_bytes},
                 {"swap_bytes", plan.swap_bytes},
                 {"total_bytes", total_bytes(plan)},
                 {"available_bytes", plan.available_bytes},
                 {"device", plan.device.empty() ? "cpu" : plan.device},
                 {"kv_budget_bytes", plan.kv_budget_bytes},
                 {"kv_bytes_per_token", plan.kv_bytes_per_token},
                 {"kv_dtype", dtype_name(plan.kv_dtype)},
                 {"kv_tokens", plan.kv_tokens},
                 {"block_size", plan.block_size},
                 {"kv_groups", groups_json(plan)},
                 {"max_model_len", plan.max_model_len},
                 {"max_num_seqs", plan.max_num_seqs},
                 {"max_concurrency", plan.max_concurrency},
                 {"longest_context", plan.longest_context},
                 {"longest_context_of_all_sequences", plan.longest_shared_context},
                 {"kv_cache_bytes_of_all_sequences", plan.kv_bytes_for_all}};
    json["replicas"] = plan.num_replicas;
    if (!plan.ranks.empty()) json["ranks"] = ranks_json(plan);
    if (!plan.shortage.empty()) json["shortage"] = plan.shortage;
    json["advice"] = advice(plan);
    json["notices"] = plan.notices;
    return json;
}

std::string plan_text(const MemoryPlan& plan, const std::string& model) {
    view::TextSheet sheet;
    sheet.row("model", model);
    add_memory(plan, sheet);
    add_groups(plan, sheet);
    sheet.row("context", with_separators(plan.max_model_len));
    sheet.row("concurrency",
              fmt::format("{:.2f} sequences of that length, at most {} (--max-num-seqs)",
                          plan.max_concurrency, plan.max_num_seqs));
    sheet.row("fits", plan.shortage.empty() ? "yes" : "no: " + plan.shortage);
    for (const std::string& line : advice(plan)) sheet.row("for more", line);
    for (const std::string& notice : plan.notices) sheet.row("note", notice);
    return sheet.text();
}

}  // namespace nvllm::inspect
