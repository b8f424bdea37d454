// What is to be written, what is being written, and what was.
#include "lib/cache/tiers/disk_writes.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Host blocks that wait for a slow disk are taken from contents.
constexpr size_t kMostWrites = 64;

BlockKey parent_key(const PrefixNode& node) {
    return node.parent == nullptr ? BlockKey{} : node.parent->key;
}

}  // namespace

void DiskWrites::add(PrefixNode& node, int32_t group) {
    index_.pin(node);
    wanted_.push_back({&node, group});
}

void DiskWrites::forget(const PrefixNode& node, int32_t group, DiskStore& store) {
    const auto is_it = [&](const Wanted& one) { return one.node == &node && one.group == group; };
    for (auto one = std::ranges::find_if(wanted_, is_it); one != wanted_.end();
         one = std::ranges::find_if(wanted_, is_it)) {
        PrefixNode& pinned = *one->node;
        if (one - wanted_.begin() < static_cast<std::ptrdiff_t>(num_ready_)) --num_ready_;
        wanted_.erase(one);
        index_.unpin(pinned);
    }
    for (Write& write : writes_) {
        write.is_wrong |= write.record.key == node.key && write.record.group == group;
    }
    const auto place = store.find(group, node.key, parent_key(node), node.tokens, node.extra);
    if (!place) return;
    const DiskBlock& block = blocks_.at(static_cast<size_t>(group));
    store.destroy(*place, block.bytes - block.digest_bytes, block.digest_bytes);
    store.forget(group, node.key);
}

void DiskWrites::plan(int32_t most, bool must_wait, DiskStore& store) {
    while (most > 0 && num_ready_ > 0 && writes_.size() < kMostWrites) {
        const Wanted wanted = wanted_.front();
        const PrefixNode& node = *wanted.node;
        if (node.is_held(wanted.group) && !store.knows(wanted.group, node.key) &&
            !is_under_way(wanted)) {
            const bool has_room =
                node.has_host_block(wanted.group) || host_.make_room(wanted.group, 1);
            if (!has_room && (must_wait || has_moves())) return;
            if (has_room && begin(wanted, store)) --most;
        }
        wanted_.pop_front();
        --num_ready_;
        index_.unpin(*wanted.node);
    }
}

// Two sequences may have computed it.
bool DiskWrites::is_under_way(const Wanted& wanted) const {
    return std::ranges::any_of(writes_, [&](const Write& write) {
        return write.record.group == wanted.group && write.record.key == wanted.node->key;
    });
}

bool DiskWrites::begin(const Wanted& wanted, DiskStore& store) {
    const PrefixNode& node = *wanted.node;
    const auto place = store.reserve(blocks_.at(static_cast<size_t>(wanted.group)).bytes);
    if (!place) return false;
    const auto host = host_.stage(*wanted.node, wanted.group);
    if (!host) return false;
    writes_.push_back({{.number = ++last_number_,
                        .group = wanted.group,
                        .host_block = *host,
                        .place = *place,
                        .seed = digest_seed(node.key, wanted.group)},
                       {.group = wanted.group,
                        .offset = place->offset,
                        .key = node.key,
                        .parent = parent_key(node),
                        .tokens = {node.tokens.begin(), node.tokens.end()},
                        .extra = node.extra}});
    return true;
}

void DiskWrites::take_moves(std::vector<DiskMove>& moves) {
    for (; num_begun_ < writes_.size(); ++num_begun_) moves.push_back(writes_[num_begun_].move);
}

void DiskWrites::take_event(const DiskEvent& event, DiskStore& store) {
    NVLLM_CHECK(num_begun_ > 0 && writes_.front().move.number == event.number,
                "blocks are written in their order");
    const Write write = std::move(writes_.front());
    writes_.pop_front();
    --num_begun_;
    space_.free(write.move.group, write.move.host_block);
    if (!event.succeeded) store.leave_segment(write.move.place.segment);
    if (!event.succeeded || write.is_wrong) return;
    store.commit(write.move.place.segment, write.record);
    ++num_blocks_;
}

void DiskWrites::forget_moves() {
    for (const Write& write : writes_) space_.free(write.move.group, write.move.host_block);
    writes_.clear();
    num_begun_ = 0;
}

void DiskWrites::clear() {
    for (const Wanted& wanted : wanted_) index_.unpin(*wanted.node);
    wanted_.clear();
    num_ready_ = 0;
}

}  // namespace nvllm
