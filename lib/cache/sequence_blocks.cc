// Coming, moving and going of a sequence's share.
#include "lib/cache/sequence_blocks.h"

#include <algorithm>
#include <utility>

#include "lib/cache/cache_manager.h"

namespace nvllm {

SequenceBlocks::SequenceBlocks(CacheManager& manager, const CacheKeyExtras& extras, uint64_t owner)
    : manager_(&manager),
      owner_(owner),
      extras_(block_extras(extras, manager.block_size())),
      tables_(manager.num_groups()) {
    manager.enter(*this);
}

SequenceBlocks::SequenceBlocks(CacheManager& manager, std::string_view salt, uint64_t owner)
    : SequenceBlocks(manager, CacheKeyExtras{.salt = std::string(salt), .adapter = {}, .media = {}},
                     owner) {}

SequenceBlocks::SequenceBlocks(SequenceBlocks&& other) noexcept
    : manager_(std::exchange(other.manager_, nullptr)),
      owner_(other.owner_),
      place_(other.place_),
      extras_(std::move(other.extras_)),
      tables_(std::move(other.tables_)),
      keys_(std::move(other.keys_)),
      published_(std::exchange(other.published_, nullptr)),
      num_published_(other.num_published_),
      num_shared_(other.num_shared_),
      num_positions_(other.num_positions_),
      last_plan_(other.last_plan_),
      expected_(std::exchange(other.expected_, nullptr)),
      num_expected_(std::exchange(other.num_expected_, 0)),
      expected_limit_(std::exchange(other.expected_limit_, 0)),
      swapped_(std::move(other.swapped_)),
      returning_(std::move(other.returning_)) {
    if (manager_ != nullptr) manager_->relocate(other, *this);
}

SequenceBlocks::~SequenceBlocks() {
    if (manager_ == nullptr) return;
    manager_->release(*this);
    manager_->leave(*this);
}

bool SequenceBlocks::empty() const {
    return std::ranges::all_of(tables_, [](const BlockTable& table) { return table.size() == 0; });
}

std::vector<std::vector<BlockId>> SequenceBlocks::block_tables() const {
    std::vector<std::vector<BlockId>> tables;
    for (const BlockTable& table : tables_) tables.push_back(table.blocks());
    return tables;
}

}  // namespace nvllm
