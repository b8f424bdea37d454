// Divides memory between weights, scratch and key-value blocks.
#include "lib/execute/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace nvllm {
namespace {

// Without a flag the cache takes this much, or what one full sequence needs, and never more than
// half of what is free.
constexpr uint64_t kDefaultKvBytes = uint64_t{4} << 30;
// A context shorter than this is of no use: better to fail and name the flag.
constexpr int64_t kMinContext = 64;

// A sequence's running state, and the checkpoint that it begins with.
constexpr int64_t kSlotsOfSequence = 2;
// Slots for checkpoints beside those that all sequences use, at most.
constexpr int64_t kMostSpareSlots = 64;

int64_t ceil_divide(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Blocks that sequences of one length need in one group: each its own, and some that belong to
// sequences that compute many tokens in a step, because all sequences together compute at most
// max_num_batched_tokens.
struct GroupNeed {
    int64_t each = 0;
    int64_t shared = 0;

    int64_t blocks(int64_t sequences) const { return sequences * each + shared; }
};

// A window keeps what it sees, which may begin with a block's last position.
GroupNeed group_need(const MemoryRequest& request, const CacheLayout& group, int64_t length) {
    if (group.is_state()) return {kSlotsOfSequence, 0};
    const int64_t all = ceil_divide(length, request.block_size);
    if (group.window == 0) return {all, 0};
    const int64_t each = std::min(all, ceil_divide(group.window, request.block_size) + 1);
    const int64_t step = ceil_divide(request.max_num_batched_tokens, request.block_size);
    return {each, std::min(all - each, step)};
}

int64_t token_bytes(const CacheLayout& group, DType kv_dtype, std::span<const int64_t> of_drafts,
                    size_t index) {
    return group.bytes_per_token(kv_dtype) + (of_drafts.empty() ? 0 : of_drafts[index]);
}

// A block of a group with states is a slot.
uint64_t block_bytes(const MemoryRequest& request, size_t group) {
    if (request.groups[group].is_state()) {
        return static_cast<uint64_t>(request.groups[group].bytes_per_state());
    }
    return static_cast<uint64_t>(token_bytes(request.groups[group], request.kv_dtype,
                                             request.draft_bytes_per_token, group)) *
           static_cast<uint64_t>(request.block_size);
}

// Of the groups of blocks, for so many sequences of `length` tokens at once.
uint64_t bytes_of_blocks(const MemoryRequest& request, int64_t length, int64_t sequences) {
    uint64_t total = 0;
    for (size_t index = 0; index < request.groups.size(); ++index) {
        if (request.groups[index].is_state()) continue;
        const GroupNeed need = group_need(request, request.groups[index], length);
        total += block_bytes(request, index) * static_cast<uint64_t>(need.blocks(sequences));
    }
    return total;
}

// Of a slot in each group with states; 0: there are none.
uint64_t slot_bytes(const MemoryRequest& request) {
    uint64_t total = 0;
    for (const CacheLayout& group : request.groups) {
        total += static_cast<uint64_t>(group.bytes_per_state());
    }
    return total;
}

// Of all groups, alike.
uint64_t cache_bytes(const MemoryRequest& request, int64_t length, int64_t sequences) {
    return bytes_of_blocks(request, length, sequences) +
           slot_bytes(request) * static_cast<uint64_t>(kSlotsOfSequence * sequences);
}

// Of each group with states: up to half of the budget, because sequences are mostly shorter than
// the longest one, and a prompt whose state is not kept is computed again.
int64_t num_slots(const MemoryRequest& request, uint64_t budget, int64_t length) {
    const uint64_t each = slot_bytes(request);
    if (each == 0) return 0;
    const uint64_t blocks = bytes_of_blocks(request, length, 1);
    const uint64_t room = std::min(budget / 2, budget - std::min(budget, blocks));
    return std::clamp(static_cast<int64_t>(room / each), kSlotsOfSequence,
                      kSlotsOfSequence * request.max_num_seqs + kMostSpareSlots);
}

uint64_t sequence_bytes(const MemoryRequest& request, int64_t length) {
    return cache_bytes(request, length, 1);
}

// Whether --max-blocks are enough for so many sequences of `length` tokens.
bool blocks_suffice(const MemoryRequest& request, int64_t length, int64_t sequences) {
    return !request.max_blocks ||
           std::ranges::all_of(request.groups, [&](const CacheLayout& group) {
               return group.is_state() ||
                      group_need(request, group, length).blocks(sequences) <= *request.max_blocks;
           });
}

// How many sequences of `length` tokens --max-blocks hold; less than one where not even one fits.
double concurrency_of_blocks(const MemoryRequest& request, int64_t length) {
    auto most = static_cast<double>(request.max_num_seqs);
    if (!request.max_blocks) return most;
    const double blocks = *request.max_blocks;
    for (const CacheLayout& group : request.groups) {
        if (group.is_state()) continue;
        const GroupNeed need = group_need(request, group, length);
        const auto one = static_cast<double>(need.blocks(1));
        const auto shared = static_cast<double>(need.shared);
        most = std::min(
            most, blocks < one ? blocks / one : (blocks - shared) / static_cast<double>(need.each));
    }
    return most;
}

// How many sequences of `length` tokens the budget holds at once; less than one where not even one
// fits.
double concurrency(const MemoryRequest& request, uint64_t budget, int64_t length) {
    const auto all = static_cast<double>(sequence_bytes(request, length));
    if (static_cast<double>(budget) < all) return static_cast<double>(budget) / all;
    const int64_t slots = num_slots(request, budget, length);
    const uint64_t of_slots = static_cast<uint64_t>(slots) * slot_bytes(request);
    const auto room = static_cast<double>(budget - std::min(budget, of_slots));
    const auto one = static_cast<double>(bytes_of_blocks(request, length, 1));
    const auto shared = static_cast<double>(bytes_of_blocks(request, length, 0));
    double most = concurrency_of_blocks(request, length);
    if (slots > 0) most = std::min(most, static_cast<double>(slots) / kSlotsOfSequence);
    return one > shared ? std::min(most, (room - shared) / (one - shared)) : most;
}

// What everything but the cache takes.
uint64_t taken_bytes(const MemoryRequest& request) {
    const uint64_t swap = request.device.empty() ? request.swap_bytes : 0;
    return request.weight_bytes + request.scratch_bytes + swap;
}

std::string free_memory(const MemoryRequest& request) {
    return request.device.empty() ? "free memory" : "free memory of " + request.device;
}

uint64_t left_for_cache(const MemoryRequest& request, uint64_t allowed_bytes) {
    const uint64_t taken = taken_bytes(request);
    return allowed_bytes > taken ? allowed_bytes - taken : 0;
}

uint64_t utilized_bytes(const MemoryRequest& request) {
    return static_cast<uint64_t>(*request.utilization *
                                 static_cast<double>(request.available_bytes));
}

// Whether --memory-limit allows less than free memory does.
bool is_limited(const MemoryRequest& request) {
    const uint64_t free = request.utilization ? utilized_bytes(request) : request.available_bytes;
    return request.limit_bytes && *request.limit_bytes < free;
}

// A share of free memory that was named is used in full; without one half of it stays free.
uint64_t cache_budget(const MemoryRequest& request, int64_t wanted_length) {
    if (request.kv_cache_bytes) return *request.kv_cache_bytes;
    const uint64_t limit = left_for_cache(request, request.limit_bytes.value_or(UINT64_MAX));
    if (request.utilization) {
        return std::min(left_for_cache(request, utilized_bytes(request)), limit);
    }
    const uint64_t usual = std::max(kDefaultKvBytes, sequence_bytes(request, wanted_length));
    return std::min({usual, left_for_cache(request, request.available_bytes) / 2, limit});
}

// The value of a flag that gives each of those that share it so much.
uint64_t for_all(const MemoryRequest& request, uint64_t bytes) {
    return bytes * static_cast<uint64_t>(request.num_sharing);
}

std::string describe_share(const MemoryRequest& request, uint64_t bytes) {
    if (request.num_sharing == 1) return describe_bytes(bytes);
    return fmt::format("{} to each of {} that share it", describe_bytes(bytes),
                       request.num_sharing);
}

// The longest context of which so many sequences fit into `budget`, at most `wanted`.
int64_t longest_that_fits(const MemoryRequest& request, uint64_t budget, int64_t wanted,
                          int64_t sequences = 1) {
    int64_t low = 0;
    int64_t high = wanted;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (cache_bytes(request, middle, sequences) <= budget &&
            blocks_suffice(request, middle, sequences)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

std::string describe_few_blocks(const MemoryRequest& request, int64_t wanted, int64_t fits) {
    int64_t needed = 0;
    for (const CacheLayout& group : request.groups) {
        if (group.is_state()) continue;
        needed = std::max(needed, group_need(request, group, wanted).blocks(1));
    }
    return fmt::format(
        "a sequence of {} tokens needs {} blocks of {}, but --max-blocks allows {}: use "
        "--max-blocks {}{}",
        wanted, needed, request.block_size, *request.max_blocks, needed,
        fits >= kMinContext ? fmt::format(", or --max-model-len {} or less", fits) : "");
}

// What sets the bound that the cache's share was counted from.
std::string describe_bound(const MemoryRequest& request) {
    if (is_limited(request)) {
        return fmt::format("--memory-limit {}",
                           describe_bytes(for_all(request, *request.limit_bytes)));
    }
    if (request.utilization) {
        return fmt::format("{} of {} of {} (--gpu-memory-utilization)", *request.utilization,
                           describe_bytes(request.available_bytes), free_memory(request));
    }
    return fmt::format("{} of {}", describe_bytes(request.available_bytes), free_memory(request));
}

// What would let `needed` bytes of cache stand beside the weights on a device.
std::string describe_device_shortage(const MemoryRequest& request, uint64_t needed) {
    const uint64_t total = taken_bytes(request) + needed;
    const double share =
        std::ceil(100.0 * static_cast<double>(total) /
                  static_cast<double>(std::max<uint64_t>(request.available_bytes, 1))) /
        100.0;
    return fmt::format(
        "weights of {} and scratch of {} leave no room for a key-value cache in {}: {}",
        describe_bytes(request.weight_bytes), describe_bytes(request.scratch_bytes),
        describe_bound(request),
        share <= 1.0 ? fmt::format("use --gpu-memory-utilization {}", share)
                     : fmt::format("{} are needed in all; use a device with more memory, a smaller "
                                   "model, a smaller --max-num-batched-tokens, or --device cpu",
                                   describe_bytes(total)));
}

// Why a sequence of `wanted` tokens does not fit, and what would help.
std::string describe_shortage(const MemoryRequest& request, uint64_t budget, int64_t wanted,
                              int64_t fits) {
    const uint64_t needed = sequence_bytes(request, wanted);
    const bool shorter_fits = fits >= kMinContext;
    const std::string shorter = fmt::format("--max-model-len {} or less", fits);
    if (needed <= budget) return describe_few_blocks(request, wanted, fits);
    if (request.kv_cache_bytes) {
        return fmt::format(
            "the key-value cache of one sequence of {} tokens needs {}, but "
            "--kv-cache-memory-bytes leaves {}: use --kv-cache-memory-bytes {} or more{}",
            wanted, describe_bytes(needed), describe_share(request, budget),
            for_all(request, needed), shorter_fits ? ", or " + shorter : "");
    }
    if (shorter_fits) {
        return fmt::format(
            "the key-value cache of one sequence of {} tokens needs {}, but {} leaves {}: use {}",
            wanted, describe_bytes(needed),
            is_limited(request) || request.utilization ? describe_bound(request)
                                                       : free_memory(request),
            describe_share(request, budget), shorter);
    }
    if (is_limited(request)) {
        return fmt::format(
            "weights of {} and scratch of {} leave no room for a key-value cache within {}: use "
            "--memory-limit {} or more",
            describe_bytes(request.weight_bytes), describe_bytes(request.scratch_bytes),
            describe_bound(request), for_all(request, taken_bytes(request) + needed));
    }
    if (!request.device.empty()) {
        return describe_device_shortage(request,
                                        sequence_bytes(request, std::min(wanted, kMinContext)));
    }
    if (request.swap_bytes > 0) {
        return fmt::format(
            "weights of {}, scratch of {} and host blocks of {} leave no room for a key-value "
            "cache in {}: lower --swap-space or --kv-offloading-size",
            describe_bytes(request.weight_bytes), describe_bytes(request.scratch_bytes),
            describe_bytes(request.swap_bytes), describe_bound(request));
    }
    return fmt::format(
        "weights of {} and scratch of {} leave no room for a key-value cache in {}: "
        "free some, or use --kv-cache-memory-bytes {} to start all the same, where weights used as "
        "they lie in the file are read again whenever they are needed",
        describe_bytes(request.weight_bytes), describe_bytes(request.scratch_bytes),
        describe_bound(request), for_all(request, needed));
}

// The context of the plan: what was asked for, or as much of the model's as fits.
void choose_context(const MemoryRequest& request, int64_t wanted, MemoryPlan& plan) {
    const uint64_t budget = plan.kv_budget_bytes;
    const int64_t fits = longest_that_fits(request, budget, wanted);
    plan.max_model_len = static_cast<int32_t>(wanted);
    if (fits == wanted) return;
    if (request.max_model_len || fits < std::min(kMinContext, wanted)) {
        plan.shortage = describe_shortage(request, budget, wanted, fits);
        return;
    }
    plan.max_model_len = static_cast<int32_t>(fits);
    const bool is_by_blocks = sequence_bytes(request, wanted) <= budget;
    plan.notices.push_back(fmt::format(
        "context cut from {} to {} tokens so that one sequence fits {} (--max-model-len, {})",
        wanted, fits,
        is_by_blocks ? fmt::format("{} blocks of {}", *request.max_blocks, request.block_size)
                     : "the key-value cache of " + describe_bytes(budget),
        is_by_blocks ? "--max-blocks" : "--kv-cache-memory-bytes"));
}

// Blocks of one group that can be used at all: of whole prompts those of one step, the last of each
// in part.
int64_t most_blocks(const MemoryRequest& request) {
    const int64_t addressable =
        std::min<int64_t>(INT32_MAX / request.block_size, request.max_blocks.value_or(INT32_MAX));
    if (!request.whole_prompts) return addressable;
    const int64_t step = ceil_divide(request.max_num_batched_tokens, request.block_size);
    return std::min(addressable, step + request.max_num_seqs);
}

// Every group gets the same number of full-length sequences, whole or in part, up to what can run
// at once; those with states their slots.
void divide_blocks(const MemoryRequest& request, MemoryPlan& plan) {
    plan.kv_tokens = INT64_MAX;
    for (size_t index = 0; index < request.groups.size(); ++index) {
        const GroupNeed need = group_need(request, request.groups[index], plan.max_model_len);
        const auto own =
            static_cast<int64_t>(plan.max_concurrency * static_cast<double>(need.each));
        const bool has_slots = request.groups[index].is_state();
        const auto blocks =
            has_slots ? num_slots(request, plan.kv_budget_bytes, plan.max_model_len)
                      : std::max(std::min(own + need.shared, most_blocks(request)), need.blocks(1));
        plan.num_blocks.push_back(static_cast<int32_t>(blocks));
        plan.kv_bytes += static_cast<uint64_t>(blocks) * block_bytes(request, index);
        plan.kv_bytes_per_token += plan.bytes_per_token(index);
        if (!has_slots) plan.kv_tokens = std::min(plan.kv_tokens, blocks * request.block_size);
        // One more, because a share of the blocks is rounded down.
        const auto needed = static_cast<double>(std::min(need.blocks(1) + 1, blocks));
        plan.smallest_share = std::max(plan.smallest_share, needed / static_cast<double>(blocks));
    }
}

// Host blocks in the proportions of the device's.
void divide_host_blocks(const MemoryRequest& request, MemoryPlan& plan) {
    if (request.swap_bytes == 0) return;
    const double share =
        static_cast<double>(request.swap_bytes) / static_cast<double>(plan.kv_bytes);
    for (size_t group = 0; group < plan.num_blocks.size(); ++group) {
        const auto blocks = static_cast<int32_t>(std::min(share * plan.num_blocks[group], 1e9));
        plan.num_host_blocks.push_back(blocks);
        plan.swap_bytes += static_cast<uint64_t>(blocks) * block_bytes(request, group);
    }
}

// What was named by itself may still be too much together.
void check_limit(const MemoryRequest& request, MemoryPlan& plan) {
    const uint64_t total =
        taken_bytes(request) - request.swap_bytes + plan.kv_bytes + plan.swap_bytes;
    if (!plan.shortage.empty() || total <= request.limit_bytes.value_or(UINT64_MAX)) return;
    plan.shortage = fmt::format(
        "weights of {}, scratch of {}, a key-value cache of {} and host blocks of {} are {} in "
        "all, "
        "more than the {} of --memory-limit: lower --kv-cache-memory-bytes, or use --memory-limit "
        "{}",
        describe_bytes(plan.weight_bytes), describe_bytes(plan.scratch_bytes),
        describe_bytes(plan.kv_bytes), describe_bytes(plan.swap_bytes), describe_bytes(total),
        describe_share(request, *request.limit_bytes), for_all(request, total));
}

// A device has no memory but its own.
std::string describe_too_much(const MemoryRequest& request, const MemoryPlan& plan) {
    const uint64_t taken = taken_bytes(request);
    const uint64_t left = request.available_bytes > taken ? request.available_bytes - taken : 0;
    return fmt::format(
        "weights of {}, scratch of {} and a key-value cache of {} are more than the {} of {}: use "
        "--kv-cache-memory-bytes {} or less",
        describe_bytes(plan.weight_bytes), describe_bytes(plan.scratch_bytes),
        describe_bytes(plan.kv_bytes), describe_bytes(request.available_bytes),
        free_memory(request), left);
}

// What other flags would give.
void add_outlook(const MemoryRequest& request, MemoryPlan& plan) {
    const int64_t all = request.max_num_seqs;
    const uint64_t budget = plan.kv_budget_bytes;
    const int64_t most = request.model_max_positions;
    plan.max_num_seqs = request.max_num_seqs;
    plan.max_num_batched_tokens = request.max_num_batched_tokens;
    plan.longest_context = static_cast<int32_t>(longest_that_fits(request, budget, most));
    plan.longest_shared_context =
        static_cast<int32_t>(longest_that_fits(request, budget, most, all));
    plan.kv_bytes_for_all = cache_bytes(request, plan.max_model_len, all);
    const uint64_t total = plan.weight_bytes + plan.scratch_bytes + plan.kv_bytes +
                           (request.device.empty() ? plan.swap_bytes : 0);
    if (plan.shortage.empty() && total > request.available_bytes && !request.device.empty()) {
        plan.shortage = describe_too_much(request, plan);
    } else if (plan.shortage.empty() && total > request.available_bytes) {
        plan.notices.push_back(
            fmt::format("{} in all is more than the {} of free memory (--kv-cache-memory-bytes)",
                        describe_bytes(total), describe_bytes(request.available_bytes)));
    }
}

// What was asked for, or all that the model has and a step can take.
int64_t wanted_context(const MemoryRequest& request, MemoryPlan& plan) {
    if (request.max_model_len) return *request.max_model_len;
    const int64_t all = request.model_max_positions;
    if (!request.whole_prompts || request.max_num_batched_tokens >= all) return all;
    plan.notices.push_back(
        fmt::format("context cut from {} to {} tokens: this model computes a prompt in one step "
                    "(--max-num-batched-tokens)",
                    all, request.max_num_batched_tokens));
    return request.max_num_batched_tokens;
}

// A share of the memory for each of the ranks that share it.
MemoryRequest shared_out(const MemoryRequest& request) {
    MemoryRequest own = request;
    const auto share = static_cast<uint64_t>(request.num_sharing);
    own.available_bytes /= share;
    own.swap_bytes /= share;
    if (own.kv_cache_bytes) *own.kv_cache_bytes /= share;
    if (own.limit_bytes) *own.limit_bytes /= share;
    return own;
}

// Blocks of a group have the bytes of those layers that a rank has.
void add_ranks(const MemoryRequest& request, MemoryPlan& plan) {
    const std::vector<uint64_t> of_block = plan.block_bytes();
    for (const RankShare& share : request.ranks) {
        RankMemory rank{share.weight_bytes, 0};
        for (size_t group = 0; group < plan.groups.size(); ++group) {
            const auto layers = static_cast<uint64_t>(plan.groups[group].layers.size());
            rank.kv_bytes += of_block[group] * static_cast<uint64_t>(plan.num_blocks[group]) *
                             static_cast<uint64_t>(share.num_layers[group]) / layers;
        }
        plan.ranks.push_back(rank);
    }
}

}  // namespace

MemoryPlan plan_memory(const MemoryRequest& given) {
    const MemoryRequest request = shared_out(given);
    if (request.max_model_len && *request.max_model_len > request.model_max_positions) {
        throw Error(ErrorKind::usage,
                    fmt::format("--max-model-len {}: the model has {} positions at most",
                                *request.max_model_len, request.model_max_positions));
    }
    MemoryPlan plan;
    const int64_t wanted = wanted_context(request, plan);
    plan.weight_bytes = request.weight_bytes;
    plan.scratch_bytes = request.scratch_bytes;
    plan.adapter_bytes = request.adapter_bytes;
    plan.available_bytes = request.available_bytes;
    plan.device = request.device;
    plan.kv_budget_bytes = cache_budget(request, wanted);
    plan.kv_dtype = request.kv_dtype;
    plan.groups = request.groups;
    plan.draft_bytes_per_token = request.draft_bytes_per_token;
    plan.block_size = request.block_size;
    plan.max_blocks = request.max_blocks;
    choose_context(request, wanted, plan);
    plan.whole_prompts = request.whole_prompts;
    plan.max_concurrency = concurrency(request, plan.kv_budget_bytes, plan.max_model_len);
    divide_blocks(request, plan);
    if (request.whole_prompts) {
        plan.max_concurrency =
            std::min(plan.max_concurrency,
                     static_cast<double>(request.max_num_batched_tokens) / plan.max_model_len);
    }
    divide_host_blocks(request, plan);
    check_limit(request, plan);
    add_outlook(request, plan);
    add_ranks(request, plan);
    plan.num_replicas = request.num_replicas;
    return plan;
}

MemoryPlan make_memory_plan(const MemoryRequest& request) {
    MemoryPlan plan = plan_memory(request);
    if (!plan.shortage.empty()) throw Error(ErrorKind::does_not_fit, plan.shortage);
    return plan;
}

int64_t MemoryPlan::bytes_per_token(size_t group) const {
    return token_bytes(groups[group], kv_dtype, draft_bytes_per_token, group);
}

std::vector<uint64_t> MemoryPlan::block_bytes() const {
    std::vector<uint64_t> bytes;
    for (size_t group = 0; group < groups.size(); ++group) {
        const int64_t of_block = groups[group].is_state() ? groups[group].bytes_per_state()
                                                          : bytes_per_token(group) * block_size;
        bytes.push_back(static_cast<uint64_t>(of_block));
    }
    return bytes;
}

uint64_t MemoryPlan::bytes_of_blocks(int64_t blocks) const {
    const int64_t planned = std::accumulate(num_blocks.begin(), num_blocks.end(), int64_t{0});
    return static_cast<uint64_t>(static_cast<double>(kv_bytes) * static_cast<double>(blocks) /
                                 static_cast<double>(std::max<int64_t>(planned, 1)));
}

std::string MemoryPlan::summary() const {
    return fmt::format(
        "{}{}weights {}, kv cache {} ({} tokens of {} B in blocks of {}), scratch {}; context {}, "
        "{:.1f} sequences of that "
        "length at once",
        num_replicas > 1 ? fmt::format("each of {} replicas: ", num_replicas) : "",
        device.empty() ? "" : device + ": ", describe_bytes(weight_bytes), describe_bytes(kv_bytes),
        kv_tokens, kv_bytes_per_token, block_size, describe_bytes(scratch_bytes), max_model_len,
        max_concurrency);
}

}  // namespace nvllm
