// Divides memory between weights, scratch and key-value blocks.
#include "lib/execute/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm {
namespace {

// Without a flag the cache takes this much, or what one full sequence needs, and never more than
// half of what is free.
constexpr uint64_t kDefaultKvBytes = uint64_t{4} << 30;
// A context shorter than this is of no use: better to fail and name the flag.
constexpr int32_t kSmallestContext = 64;

int64_t ceil_divide(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Blocks a sequence of `length` tokens holds at most in this group: a window needs only what it
// sees and one step more.
int64_t blocks_per_sequence(const MemoryRequest& request, const KvGroup& group, int64_t length) {
    int64_t tokens = length;
    if (group.window > 0) {
        tokens = std::min<int64_t>(tokens, group.window + request.max_num_batched_tokens);
    }
    return ceil_divide(tokens, request.block_size) + (group.window > 0 ? 1 : 0);
}

uint64_t block_bytes(const MemoryRequest& request, const KvGroup& group) {
    return static_cast<uint64_t>(group.bytes_per_token(request.kv_dtype)) *
           static_cast<uint64_t>(request.block_size);
}

uint64_t sequence_bytes(const MemoryRequest& request, int64_t length) {
    uint64_t total = 0;
    for (const KvGroup& group : request.groups) {
        total += block_bytes(request, group) *
                 static_cast<uint64_t>(blocks_per_sequence(request, group, length));
    }
    return total;
}

uint64_t free_for_cache(const MemoryRequest& request) {
    const uint64_t taken = request.weight_bytes + request.scratch_bytes;
    return request.available_bytes > taken ? request.available_bytes - taken : 0;
}

uint64_t cache_budget(const MemoryRequest& request, int64_t wanted_length) {
    if (request.kv_cache_bytes) return *request.kv_cache_bytes;
    const uint64_t one_sequence = sequence_bytes(request, wanted_length);
    return std::min(std::max(kDefaultKvBytes, one_sequence), free_for_cache(request) / 2);
}

// The longest context of which one sequence fits into `budget`, at most `wanted`.
int64_t longest_that_fits(const MemoryRequest& request, uint64_t budget, int64_t wanted) {
    int64_t low = 0;
    int64_t high = wanted;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (sequence_bytes(request, middle) <= budget) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

[[noreturn]] void throw_too_small(const MemoryRequest& request, uint64_t budget, int64_t wanted,
                                  int64_t fits) {
    const char* flag = request.kv_cache_bytes ? "--kv-cache-memory-bytes" : "free memory";
    std::string remedy =
        fmt::format("use --kv-cache-memory-bytes {} or more", sequence_bytes(request, wanted));
    if (fits >= kSmallestContext) remedy += fmt::format(", or --max-model-len {} or less", fits);
    if (!request.kv_cache_bytes) remedy = fmt::format("use --max-model-len {} or less", fits);
    throw Error(
        ErrorKind::does_not_fit,
        fmt::format(
            "the key-value cache of one sequence of {} tokens needs {}, but {} leaves {}: {}",
            wanted, describe_bytes(sequence_bytes(request, wanted)), flag, describe_bytes(budget),
            remedy));
}

// The context of the plan: what was asked for, or as much of the model's as fits.
int32_t choose_context(const MemoryRequest& request, uint64_t budget, int64_t wanted,
                       std::vector<std::string>& notices) {
    const int64_t fits = longest_that_fits(request, budget, wanted);
    if (fits == wanted) return static_cast<int32_t>(wanted);
    if (request.max_model_len || fits < std::min<int64_t>(kSmallestContext, wanted)) {
        throw_too_small(request, budget, wanted, fits);
    }
    notices.push_back(
        fmt::format("context cut from {} to {} tokens so that one sequence fits the key-value "
                    "cache of {} (--max-model-len, "
                    "--kv-cache-memory-bytes)",
                    wanted, fits, describe_bytes(budget)));
    return static_cast<int32_t>(fits);
}

}  // namespace

MemoryPlan make_memory_plan(const MemoryRequest& request) {
    if (request.max_model_len && *request.max_model_len > request.model_max_positions) {
        throw Error(ErrorKind::usage,
                    fmt::format("--max-model-len {}: the model has {} positions at most",
                                *request.max_model_len, request.model_max_positions));
    }
    const int64_t wanted =
        request.max_model_len ? *request.max_model_len : request.model_max_positions;
    const uint64_t budget = cache_budget(request, wanted);

    MemoryPlan plan;
    plan.weight_bytes = request.weight_bytes;
    plan.scratch_bytes = request.scratch_bytes;
    plan.block_size = request.block_size;
    plan.max_model_len = choose_context(request, budget, wanted, plan.notices);

    // Every group gets the same number of full-length sequences, whole or in part, up to what can
    // run at once.
    const double sequences =
        std::min(static_cast<double>(request.max_num_seqs),
                 static_cast<double>(budget) /
                     static_cast<double>(sequence_bytes(request, plan.max_model_len)));
    plan.kv_tokens = INT64_MAX;
    for (const KvGroup& group : request.groups) {
        const int64_t each = blocks_per_sequence(request, group, plan.max_model_len);
        const auto blocks =
            std::clamp<int64_t>(static_cast<int64_t>(sequences * static_cast<double>(each)), each,
                                INT32_MAX / request.block_size);
        plan.num_blocks.push_back(static_cast<int32_t>(blocks));
        plan.kv_bytes += static_cast<uint64_t>(blocks) * block_bytes(request, group);
        plan.kv_bytes_per_token += group.bytes_per_token(request.kv_dtype);
        plan.kv_tokens = std::min(plan.kv_tokens, blocks * request.block_size);
    }
    plan.max_concurrency = sequences;
    return plan;
}

std::string MemoryPlan::summary() const {
    return fmt::format(
        "weights {}, kv cache {} ({} tokens of {} B in blocks of {}), scratch {}; context {}, "
        "{:.1f} sequences of that "
        "length at once",
        describe_bytes(weight_bytes), describe_bytes(kv_bytes), kv_tokens, kv_bytes_per_token,
        block_size, describe_bytes(scratch_bytes), max_model_len, max_concurrency);
}

std::string describe_bytes(uint64_t bytes) {
    if (bytes < 1024) return fmt::format("{} B", bytes);
    if (bytes < (uint64_t{1} << 20))
        return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024.0);
    if (bytes < (uint64_t{1} << 30))
        return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0);
    return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / 1073741824.0);
}

}  // namespace nvllm
