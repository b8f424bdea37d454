// Construction, moving and destruction of a sequence's share.
#include "lib/cache/sequence_blocks.h"

#include <algorithm>
#include <utility>

#include "lib/cache/cache_manager.h"

namespace nvllm {

bool CacheSequence::empty() const {
    return std::ranges::all_of(tables, [](const BlockTable& table) { return table.size() == 0; });
}

SequenceBlocks::SequenceBlocks(CacheManager& manager, const CacheKeyExtras& extras, uint64_t owner)
    : manager_(&manager) {
    state_.owner = owner;
    state_.extras = block_extras(extras, manager.block_size());
    state_.tables.resize(static_cast<size_t>(manager.num_groups()));
    if (manager.shape().has_states()) state_.checkpoints.resize(state_.tables.size());
    manager.tables_.add(state_);
}

SequenceBlocks::SequenceBlocks(CacheManager& manager, std::string_view salt, uint64_t owner)
    : SequenceBlocks(manager, CacheKeyExtras{.salt = std::string(salt), .adapter = {}, .media = {}},
                     owner) {}

SequenceBlocks::SequenceBlocks(SequenceBlocks&& other) noexcept
    : manager_(std::exchange(other.manager_, nullptr)), state_(std::move(other.state_)) {
    if (manager_ == nullptr) return;
    manager_->tables_.replace(state_);
    manager_->hints_.replace(other.state_, state_);
}

SequenceBlocks::~SequenceBlocks() {
    if (manager_ == nullptr) return;
    manager_->free(*this);
    manager_->tables_.remove(state_);
}

std::vector<std::vector<BlockId>> SequenceBlocks::block_tables() const {
    std::vector<std::vector<BlockId>> tables;
    for (const BlockTable& table : state_.tables) tables.push_back(table.blocks());
    return tables;
}

}  // namespace nvllm
