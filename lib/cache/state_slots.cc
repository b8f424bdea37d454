// Slots of running states, and the checkpoints that they leave.
#include "lib/cache/state_slots.h"

#include <utility>

#include "kernels/error.h"

namespace nvllm {

void StateSlots::fork(CacheSequence& child, const CacheSequence& parent, int32_t group) {
    if (parent.tables[group].size() == 0) return;
    const BlockId slot = parent.state_slot(group);
    pools_[group].share(slot);
    child.tables[group].append(slot);
}

int32_t StateSlots::num_needed(const CacheSequence& sequence, int32_t group) const {
    const BlockTable& table = sequence.tables[group];
    if (table.size() == 0 || sequence.checkpoints[group].source) return 0;
    return must_replace(group, table[0]) ? 1 : 0;
}

void StateSlots::make_writable(CacheSequence& sequence, int32_t group, int32_t next_position,
                               StateUse use, std::vector<BlockMove>& copies,
                               std::vector<TableChange>& changes) {
    BlockTable& table = sequence.tables[group];
    if (table.size() == 0) return;
    std::optional<BlockId>& source = sequence.checkpoints[group].source;
    if (source) {
        // The slot was taken at admission.
        copies.push_back({group, *source, table[0]});
        tables_.free(sequence, group, *source);
        source.reset();
        return;
    }
    const BlockId old = table[0];
    const bool checkpoint = wants_checkpoint(sequence, group, next_position, use);
    if (!checkpoint && !must_replace(group, old)) return;
    if (checkpoint) drop_newest(sequence, group);
    table.replace(0, prefix_cache_.take(group));
    copies.push_back({group, old, table[0]});
    changes.push_back({sequence.owner, group, 0, table[0]});
    if (checkpoint) {
        const int32_t block_index = next_position / shape_.block_size() - 1;
        keep_checkpoint(sequence, group, block_index, old);
        if (use == StateUse::keep_newest && next_position % checkpoint_interval_ != 0) {
            sequence.checkpoints[group].newest = block_index;
        }
    } else {
        tables_.free(sequence, group, old);
    }
}

bool StateSlots::wants_checkpoint(const CacheSequence& sequence, int32_t group,
                                  int32_t next_position, StateUse use) const {
    const int32_t block_size = shape_.block_size();
    const int32_t step = use == StateUse::at_interval ? checkpoint_interval_ : block_size;
    return prefix_cache_.enabled() && next_position > 0 && next_position % step == 0 &&
           pools_[group].num_available() > 0 &&
           !pools_[group].is_cached(sequence.tables[group][0]) &&
           !has_checkpoint(sequence, group, next_position / block_size - 1);
}

// Another sequence may have inserted it, it may lie in host memory, or this one may have kept it
// for a plan that was not made.
bool StateSlots::has_checkpoint(const CacheSequence& sequence, int32_t group,
                                int32_t block_index) const {
    if (block_index + 1 == sequence.num_cached) {
        return sequence.last_cached->is_held(group);
    }
    const auto& pending = sequence.checkpoints[group].pending;
    return !pending.empty() && pending.back().block_index == block_index;
}

// The block itself may be committed already, or later than its state was copied.
void StateSlots::keep_checkpoint(CacheSequence& sequence, int32_t group, int32_t block_index,
                                 BlockId slot) {
    NVLLM_CHECK(block_index + 1 >= sequence.num_cached, "a state cannot go back");
    sequence.checkpoints[group].pending.push_back({block_index, slot});
    insert_checkpoints(sequence);
}

// The one that was kept as the newest, unless it is not committed yet or another sequence has found
// it.
void StateSlots::drop_newest(CacheSequence& sequence, int32_t group) {
    const std::optional<int32_t> block = std::exchange(sequence.checkpoints[group].newest, {});
    if (!block || *block >= sequence.num_cached) return;
    const PrefixNode& node = sequence.cached_node(*block);
    if (node.num_hits == 0) prefix_cache_.remove_unused(node, group);
}

void StateSlots::insert_checkpoints(CacheSequence& sequence) {
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (!shape_.is_state(group)) continue;
        std::vector<StateCheckpoints::Pending>& pending = sequence.checkpoints[group].pending;
        std::erase_if(pending, [&](const StateCheckpoints::Pending& one) {
            if (one.block_index >= sequence.num_cached) return false;
            prefix_cache_.insert(sequence.cached_node(one.block_index), group, one.slot);
            tables_.free(sequence, group, one.slot);
            return true;
        });
    }
}

void StateSlots::clear(CacheSequence& sequence, int32_t group) {
    StateCheckpoints& checkpoints = sequence.checkpoints[group];
    for (const StateCheckpoints::Pending& one : checkpoints.pending) {
        tables_.free(sequence, group, one.slot);
    }
    checkpoints.pending.clear();
    if (checkpoints.source) tables_.free(sequence, group, *checkpoints.source);
    checkpoints.source.reset();
    checkpoints.newest.reset();
}

}  // namespace nvllm
