// From blocks of the target's groups to those of the draft method's.
#include "lib/execute/propose/draft_storage.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {

std::vector<size_t> groups_of_target(std::span<const CacheLayout> target,
                                     std::span<const CacheLayout> drafts) {
    std::vector<size_t> found;
    for (const CacheLayout& group : drafts) {
        if (group.is_state()) {
            throw Error(ErrorKind::bad_config,
                        "the draft model has layers with linear attention, and states are kept "
                        "for the model that it drafts for alone");
        }
        const auto with_window = [&](int64_t window) {
            return std::ranges::find_if(target, [&](const CacheLayout& of_target) {
                return of_target.window == window && !of_target.is_state();
            });
        };
        auto place = with_window(group.window);
        if (place == target.end()) place = with_window(0);
        if (place == target.end()) {
            throw Error(
                ErrorKind::bad_config,
                fmt::format("the draft's layers attend to {}, and the model's cache keeps "
                            "less",
                            group.window == 0 ? "all positions" : fmt::format("{}", group.window)));
        }
        found.push_back(static_cast<size_t>(place - target.begin()));
    }
    return found;
}

namespace {

// The only group of the target that drafts lie in, if it keeps everything.
std::optional<size_t> single_full_group(std::span<const CacheLayout> target,
                                        std::span<const size_t> groups) {
    const bool is_single =
        std::ranges::all_of(groups, [&](size_t group) { return group == groups.front(); });
    if (groups.empty() || !is_single || target[groups.front()].window != 0) return std::nullopt;
    return groups.front();
}

}  // namespace

DraftStorage::DraftStorage(const std::vector<CacheLayout>& target,
                           const std::vector<CacheLayout>& drafts, const WorkerConfig& config,
                           int32_t num_rows)
    : groups_(groups_of_target(target, drafts)),
      num_blocks_(config.num_blocks),
      block_size_(config.block_size),
      tail_blocks_(tail_blocks(num_rows, config.block_size)),
      max_sequences_(config.max_num_seqs),
      counted_group_(single_full_group(target, groups_)),
      kv_(drafts, blocks_by_group(config.num_blocks, tail_blocks_ * max_sequences_),
          blocks_by_group(config.num_host_blocks, 0), config.block_size, config.kv_dtype) {
    if (!counts_rows()) return;
    filled_.resize(static_cast<size_t>(config.num_blocks[*counted_group_]));
    if (config.num_host_blocks.empty()) return;
    host_filled_.resize(static_cast<size_t>(config.num_host_blocks[*counted_group_]));
}

std::vector<int32_t> DraftStorage::blocks_by_group(std::span<const int32_t> of_target,
                                                   int32_t further) const {
    std::vector<int32_t> blocks;
    if (of_target.empty()) return blocks;
    for (const size_t group : groups_) blocks.push_back(of_target[group] + further);
    return blocks;
}

std::vector<GroupTables> DraftStorage::tables(std::span<const GroupTables> target) const {
    std::vector<GroupTables> tables;
    for (const size_t group : groups_) tables.push_back(target[group]);
    return tables;
}

template <typename Move>
std::vector<Move> DraftStorage::of_drafts(std::span<const Move> moves) const {
    std::vector<Move> own;
    for (const Move& move : moves) {
        for (size_t group = 0; group < groups_.size(); ++group) {
            if (groups_[group] != static_cast<size_t>(move.group)) continue;
            own.push_back(move);
            own.back().group = static_cast<int32_t>(group);
        }
    }
    return own;
}

uint64_t DraftStorage::move_blocks(const Context& context, const BatchPlan& plan) {
    kv_.copy_blocks(context, of_drafts(std::span(plan.moves)));
    // The blocks behind those of sequences may go as well: they are empty between steps.
    if (!plan.num_blocks.empty()) kv_.use_first(blocks_by_group(plan.num_blocks, 0));
    uint64_t bytes = kv_.swap_out(context, of_drafts(std::span(plan.swaps_out)));
    kv_.copy_blocks(context, of_drafts(std::span(plan.copies)));
    bytes += kv_.swap_in(context, of_drafts(std::span(plan.swaps_in)));
    if (counts_rows()) count_moves(plan);
    return bytes;
}

// In the plan's order. Blocks that sequences get anew have been another's.
void DraftStorage::count_moves(const BatchPlan& plan) {
    const auto is_counted = [&](int32_t group) {
        return static_cast<size_t>(group) == *counted_group_;
    };
    const auto copy = [&](std::span<const BlockMove> moves) {
        for (const BlockMove& move : moves) {
            if (!is_counted(move.group)) continue;
            filled_[static_cast<size_t>(move.to)] = filled_[static_cast<size_t>(move.from)];
        }
    };
    copy(plan.moves);
    if (!plan.num_blocks.empty()) {
        std::fill(filled_.begin() + plan.num_blocks[*counted_group_], filled_.end(), 0);
    }
    for (const SwapMove& move : plan.swaps_out) {
        if (!is_counted(move.group)) continue;
        host_filled_[static_cast<size_t>(move.host_block)] =
            filled_[static_cast<size_t>(move.device_block)];
    }
    copy(plan.copies);
    for (const SwapMove& move : plan.swaps_in) {
        if (!is_counted(move.group)) continue;
        filled_[static_cast<size_t>(move.device_block)] =
            host_filled_[static_cast<size_t>(move.host_block)];
    }
    // Files have the target's keys and values alone.
    for (const DiskMove& move : plan.disk_reads) {
        if (is_counted(move.group)) host_filled_[static_cast<size_t>(move.host_block)] = 0;
    }
    for (const PlanEntry& entry : plan.entries) {
        if (entry.new_blocks.empty()) continue;
        for (const int32_t block : entry.new_blocks[*counted_group_]) {
            filled_[static_cast<size_t>(block)] = 0;
        }
    }
}

int32_t DraftStorage::first_missing(std::span<const std::vector<int32_t>> tables) const {
    int32_t position = 0;
    for (const int32_t block : tables[*counted_group_]) {
        const int32_t filled = filled_[static_cast<size_t>(block)];
        position += filled;
        if (filled < block_size_) break;
    }
    return position;
}

void DraftStorage::note_filled(std::span<const std::vector<int32_t>> tables, int32_t end) {
    int32_t first = 0;
    for (const int32_t block : tables[*counted_group_]) {
        if (first >= end) break;
        int32_t& filled = filled_[static_cast<size_t>(block)];
        filled = std::max(filled, std::min(end - first, block_size_));
        first += block_size_;
    }
}

int32_t DraftStorage::first_tail_block(size_t group, size_t index) const {
    NVLLM_CHECK(index < static_cast<size_t>(max_sequences_), "drafts of too many sequences");
    return num_blocks_[group] + static_cast<int32_t>(index) * tail_blocks_;
}

}  // namespace nvllm
