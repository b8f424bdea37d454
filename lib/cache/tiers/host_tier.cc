// Contents, their order, and copies under way.
#include "lib/cache/tiers/host_tier.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {

HostTier::HostTier(bool enabled, PrefixIndex& index, SwapSpace& space, int32_t num_groups)
    : enabled_(enabled), index_(index), space_(space), groups_(static_cast<size_t>(num_groups)) {
    for (int32_t group = 0; group < num_groups; ++group) {
        Group& made = groups_[group];
        made.places.assign(static_cast<size_t>(space.num_total(group)), made.order.end());
    }
}

void HostTier::keep(PrefixNode& node, int32_t group, BlockId block) {
    if (!enabled_) return;
    if (node.has_host_block(group)) return touch(group, node.groups[group].host_block);
    if (node.groups[group].num_blocks > 1) return;
    if (space_.num_free(group) == 0 && !drop_oldest(group)) return;
    const HostBlockId host = space_.take(group);
    Group& held = groups_[group];
    held.places[host] = held.order.insert(held.order.end(), {&node, host});
    index_.set_host_block(node, group, host);
    out_.push_back({group, block, host, 0});
    ++counts_.blocks_kept;
}

void HostTier::reserve(const PrefixNode& node, int32_t group) {
    const HostBlockId host = node.groups[group].host_block;
    touch(group, host);
    reserved_.push_back(groups_[group].places[host]);
    reserved_.back()->is_reserved = true;
}

void HostTier::bring_back(const PrefixNode& node, int32_t group, BlockId to) {
    const HostBlockId host = node.groups[group].host_block;
    NVLLM_CHECK(groups_[group].places[host]->is_reserved, "what comes back is reserved");
    in_.push_back({group, to, host, 0});
    ++counts_.blocks_back;
}

void HostTier::retarget(int32_t group, BlockId block) {
    std::erase_if(in_, [&](const SwapMove& move) {
        return move.group == group && move.device_block == block;
    });
}

void HostTier::forget(const PrefixNode& node, int32_t group) {
    if (!node.has_host_block(group)) return;
    const Order::iterator held = groups_[group].places[node.groups[group].host_block];
    if (!held->is_reserved) drop(group, held);
}

std::optional<HostBlockId> HostTier::stage(PrefixNode& node, int32_t group) {
    Group& held = groups_[group];
    if (!node.has_host_block(group)) {
        const auto block = PrefixIndex::block(node, group);
        if (!block) return std::nullopt;
        if (space_.num_free(group) == 0 && !drop_oldest(group)) return std::nullopt;
        const HostBlockId host = space_.take(group);
        held.places[host] = held.order.insert(held.order.begin(), {&node, host});
        index_.set_host_block(node, group, host);
        out_.push_back({group, *block, host, 0});
    }
    const HostBlockId host = node.groups[group].host_block;
    space_.share(group, host);
    return host;
}

void HostTier::add(PrefixNode& node, int32_t group, HostBlockId block) {
    if (node.has_host_block(group)) return;
    Group& held = groups_[group];
    space_.share(group, block);
    held.places[block] = held.order.insert(held.order.end(), {&node, block});
    index_.set_host_block(node, group, block);
}

int32_t HostTier::num_available(int32_t group) const {
    const auto num_kept = std::ranges::count_if(
        groups_[group].order, [&](const Held& held) { return may_drop(group, held); });
    return space_.num_free(group) + static_cast<int32_t>(num_kept);
}

bool HostTier::make_room(int32_t group, int32_t count) {
    while (space_.num_free(group) < count) {
        if (!drop_oldest(group)) return false;
    }
    return true;
}

void HostTier::clear() {
    for (int32_t group = 0; group < std::ssize(groups_); ++group) {
        while (!groups_[group].order.empty()) drop(group, groups_[group].order.begin());
    }
    reserved_.clear();
    in_.clear();
}

void HostTier::cancel_keeps() {
    while (!out_.empty()) {
        const SwapMove move = out_.back();
        drop(move.group, groups_[move.group].places[move.host_block]);
    }
}

void HostTier::take_moves(std::vector<SwapMove>& out, std::vector<SwapMove>& in) {
    out.insert(out.end(), out_.begin(), out_.end());
    in.insert(in.end(), in_.begin(), in_.end());
    for (const Order::iterator held : reserved_) held->is_reserved = false;
    reserved_.clear();
    out_.clear();
    in_.clear();
}

TierStats HostTier::stats() const {
    TierStats stats = counts_;
    for (const Group& group : groups_) stats.blocks_held += std::ssize(group.order);
    return stats;
}

void HostTier::touch(int32_t group, HostBlockId block) {
    Order& order = groups_[group].order;
    order.splice(order.end(), order, groups_[group].places[block]);
}

// To drop a content whose block others use makes no room.
bool HostTier::may_drop(int32_t group, const Held& held) const {
    return !held.is_reserved && space_.references(group, held.block) == 1;
}

bool HostTier::drop_oldest(int32_t group) {
    Order& order = groups_[group].order;
    const auto oldest =
        std::ranges::find_if(order, [&](const Held& held) { return may_drop(group, held); });
    if (oldest == order.end()) return false;
    drop(group, oldest);
    ++counts_.blocks_dropped;
    return true;
}

void HostTier::drop(int32_t group, Order::iterator held) {
    PrefixNode& node = *held->node;
    const HostBlockId block = held->block;
    Group& from = groups_[group];
    std::erase_if(out_, [&](const SwapMove& move) {
        return move.group == group && move.host_block == block;
    });
    from.places[block] = from.order.end();
    from.order.erase(held);
    space_.free(group, block);
    index_.set_host_block(node, group, kNoHostBlock);
}

}  // namespace nvllm
