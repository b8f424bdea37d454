// How far files reach, and what of it is read.
#include "lib/cache/tiers/disk_reads.h"

#include <algorithm>

#include "kernels/error.h"
#include "lib/cache/prefix/prefix_keys.h"

namespace nvllm {
namespace {

// The node of the block after `parent`, where there can be one.
PrefixNode* next_node(PrefixIndex& index, const PrefixNode* parent, const CacheSequence& sequence,
                      std::span<const int32_t> tokens, int32_t block) {
    if (block > 0 && parent == nullptr) return nullptr;
    return find_block(index, parent, sequence, tokens, block);
}

}  // namespace

// As PrefixCache::match(), with what files have: after a possible length every group has what a
// query reads.
DiskReads::Lengths DiskReads::lengths(CacheSequence& sequence, std::span<const int32_t> tokens,
                                      const DiskStore& store) const {
    const int32_t limit = num_reusable_blocks(tokens, shape_.block_size());
    extend_keys(index_, sequence, tokens, limit);
    Lengths lengths;
    const auto num_groups = static_cast<size_t>(shape_.num_groups());
    std::vector<int32_t> run_start(num_groups, 0);
    std::vector<int32_t> held_start(num_groups, 0);
    const PrefixNode* node = nullptr;
    for (int32_t block = 0; block < limit; ++block) {
        node = next_node(index_, node, sequence, tokens, block);
        bool is_known = node != nullptr;
        bool reaches = true;
        bool is_held = true;
        for (int32_t group = 0; group < shape_.num_groups(); ++group) {
            const bool holds = node != nullptr && node->is_held(group);
            const bool has = holds || store.knows(group, sequence.keys[block]);
            is_known |= has;
            if (!has) run_start[group] = block + 1;
            if (!holds) held_start[group] = block + 1;
            const int32_t first = shape_.first_block_read(group, (block + 1) * shape_.block_size());
            reaches &= run_start[group] <= first;
            is_held &= held_start[group] <= first;
        }
        if (!is_known) break;
        if (is_held) lengths.held = block + 1;
        if (reaches) lengths.possible.push_back(block + 1);
    }
    return lengths;
}

bool DiskReads::begin(CacheSequence& sequence, std::span<const int32_t> tokens, DiskStore& store) {
    if (tokens.empty() || sequence.has_looked_on_disk) return true;
    const Lengths found = lengths(sequence, tokens, store);
    for (auto length = found.possible.rbegin();
         length != found.possible.rend() && *length > found.held; ++length) {
        const Begun begun = begin(sequence, tokens, *length, store);
        if (begun == Begun::later) return false;
        if (begun == Begun::no) continue;
        num_tokens_ += int64_t{*length - found.held} * shape_.block_size();
        break;
    }
    sequence.has_looked_on_disk = true;
    return true;
}

// False if files have something else under a key.
bool DiskReads::find_needed(CacheSequence& sequence, std::span<const int32_t> tokens,
                            int32_t num_blocks, const DiskStore& store,
                            std::vector<Needed>& needed) const {
    const PrefixNode* node = nullptr;
    const int32_t end = num_blocks * shape_.block_size();
    for (int32_t block = 0; block < num_blocks; ++block) {
        node = next_node(index_, node, sequence, tokens, block);
        for (int32_t group = 0; group < shape_.num_groups(); ++group) {
            const bool is_held = node != nullptr && node->is_held(group);
            if (is_held || block < shape_.first_block_read(group, end)) continue;
            const auto place = store.find(
                group, sequence.keys[block], block == 0 ? BlockKey{} : sequence.keys[block - 1],
                block_tokens(tokens, block, shape_.block_size()), block_extra(sequence, block));
            if (!place) return false;
            needed.push_back({block, group, *place});
        }
    }
    return true;
}

bool DiskReads::fits(std::span<const Needed> needed) const {
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const auto count = std::ranges::count(needed, group, &Needed::group);
        if (count > 0 && count > host_.num_available(group)) return false;
    }
    return true;
}

// No: there are too few host blocks, or files have something else.
DiskReads::Begun DiskReads::begin(CacheSequence& sequence, std::span<const int32_t> tokens,
                                  int32_t num_blocks, DiskStore& store) {
    std::vector<Needed> needed;
    if (!find_needed(sequence, tokens, num_blocks, store, needed)) return Begun::no;
    // What was read for one sequence is not given up for another one that comes later.
    int32_t num_total = 0;
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        num_total += space_.num_total(group);
    }
    const auto count = static_cast<int32_t>(needed.size());
    const bool must_wait = num_blocks_for_waiting_ > 0;
    if (must_wait && num_blocks_for_waiting_ + count > num_total / 2) return Begun::later;
    if (!fits(needed)) return must_wait ? Begun::later : Begun::no;
    num_blocks_for_waiting_ += count;
    sequence.num_blocks_read = count;
    std::vector<PrefixNode*> path;
    for (int32_t block = 0; block < num_blocks; ++block) {
        const int64_t num_before = index_.num_nodes();
        path.push_back(index_.find_or_add(
            path.empty() ? nullptr : path.back(), sequence.keys[block],
            block_tokens(tokens, block, shape_.block_size()), block_extra(sequence, block)));
        if (index_.num_nodes() > num_before) hints_.node_added(*path.back());
    }
    const size_t num_earlier = reads_.size();
    uint64_t used = 0;
    for (const Needed& one : needed) {
        add(sequence, *path[static_cast<size_t>(one.block)], one, num_earlier);
        if (std::exchange(used, one.place.segment) != one.place.segment) store.touch(used);
    }
    for (PrefixNode* const one : path) index_.unpin(*one);
    return Begun::yes;
}

// An earlier sequence may have begun to read it.
void DiskReads::add(CacheSequence& sequence, PrefixNode& node, const Needed& needed,
                    size_t num_earlier) {
    for (size_t i = 0; i < num_earlier; ++i) {
        if (reads_[i].node != &node || reads_[i].move.group != needed.group) continue;
        sequence.last_read = std::max(sequence.last_read, reads_[i].move.number);
        return;
    }
    const bool has_room = host_.make_room(needed.group, 1);
    NVLLM_CHECK(has_room, "host blocks are counted before they are taken");
    index_.pin(node);
    reads_.push_back({{.number = ++last_number_,
                       .group = needed.group,
                       .host_block = space_.take(needed.group),
                       .place = needed.place,
                       .seed = digest_seed(node.key, needed.group)},
                      &node});
    sequence.last_read = last_number_;
}

void DiskReads::take_moves(std::vector<DiskMove>& moves) {
    for (; num_begun_ < reads_.size(); ++num_begun_) moves.push_back(reads_[num_begun_].move);
}

void DiskReads::take_event(const DiskEvent& event, DiskStore& store) {
    NVLLM_CHECK(num_begun_ > 0 && reads_.front().move.number == event.number,
                "blocks are read in their order");
    const Read& read = reads_.front();
    if (event.succeeded) {
        host_.add(*read.node, read.move.group, read.move.host_block);
        ++num_blocks_;
    } else {
        store.forget(read.move.group, read.node->key);
    }
    --num_begun_;
    end_first();
}

void DiskReads::end_first() {
    const Read read = reads_.front();
    reads_.pop_front();
    last_ended_ = read.move.number;
    space_.free(read.move.group, read.move.host_block);
    index_.unpin(*read.node);
}

void DiskReads::clear() {
    while (!reads_.empty()) end_first();
    num_begun_ = 0;
}

}  // namespace nvllm
