// A cache with memory behind it, as a test sees it: every slot of every block, on the device and in
// the host, remembers the whole prefix it was computed from. Copies are carried out in the order in
// which the cache manager hands them out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lib/cache/cache_manager.h"
#include "tests/lib/cache/kv_slots.h"

namespace nvllm {

class CacheWorld {
  public:
    using Memory = std::vector<std::vector<uint64_t>>;  // per block, per slot

    struct Walker {
        Walker(CacheManager& cache, const std::string& salt, uint64_t owner)
            : cache(cache, salt, owner), salt(salt) {
            for (int32_t group = 0; group < cache.num_groups(); ++group) told.emplace_back();
        }
        SequenceBlocks cache;
        std::string salt;
        std::vector<int32_t> tokens;
        std::vector<uint64_t> digests;
        std::vector<std::vector<BlockId>> told;  // per group: the table as a worker knows it
        int32_t num_computed = 0;
        int32_t num_planned = 0;
    };

    CacheWorld(const CacheConfig& config, unsigned seed, int depth)
        : config(config), cache(config), random(seed), depth(depth) {
        for (const CacheGroupConfig& group : config.groups) {
            const std::vector<uint64_t> block(static_cast<size_t>(config.block_size), 0);
            device.emplace_back(static_cast<size_t>(group.num_blocks), block);
            host.emplace_back(static_cast<size_t>(group.num_host_blocks), block);
        }
    }

    int draw(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }
    Walker* any() {
        return walkers.empty()
                   ? nullptr
                   : walkers[static_cast<size_t>(draw(static_cast<int>(walkers.size())))].get();
    }
    bool in_flight(const Walker& walker) const { return walker.num_planned > walker.num_computed; }

    void run(int num_steps) {
        for (int i = 0; i < num_steps && wrong == 0; ++i) {
            one_step();
            check();
        }
        walkers.clear();
        waiting.clear();
        while (!uncommitted.empty()) commit_step();
        cache.clear_unused();
        check();
        wrong += cache.stats().blocks.used != 0 || cache.detailed_stats().total.host_used != 0;
    }

    void one_step() {
        switch (draw(24)) {
            case 0:
            case 1:
                announce();
                break;
            case 2:
            case 3:
            case 4:
                come_in();
                break;
            case 5:
                if (draw(2) == 0) leave();
                break;
            case 6:
            case 7:
                fork();
                break;
            case 8:
                swap_out();
                break;
            case 9:
            case 10:
                swap_in();
                break;
            case 11:
                if (draw(3) == 0) resize();
                break;
            case 12:
            case 13:
            case 14:
            case 15:
            case 16:
                commit_step();
                break;
            default:
                plan_step();
        }
    }

    void append_tokens(Walker& walker, int count) {
        const int beginning = draw(3);
        for (int i = 0; i < count; ++i) {
            walker.tokens.push_back(draw(12) == 0 ? draw(3) : beginning);
        }
        walker.digests = prefix_digests(walker.tokens, walker.salt.size() + 1);
    }

    // A sequence that waits; what it will ask for is told.
    void announce() {
        if (waiting.size() > 5) waiting.pop_front();
        auto& walker = waiting.emplace_back(
            std::make_unique<Walker>(cache, draw(4) == 0 ? "salt" : "", ++last_owner));
        append_tokens(*walker, 1 + draw(40));
        if (draw(4) != 0) cache.set_reuse_hint(walker->cache, walker->tokens);
    }

    void come_in() {
        if (waiting.empty()) return;
        Walker& walker = *waiting.front();
        const PrefixMatch match = cache.match(walker.cache, walker.tokens);
        check_match(walker, match);
        const auto length = static_cast<int32_t>(walker.tokens.size());
        if (!cache.admit(walker.cache, match, length, 8, draw(3))) return;
        settle();
        hits += match.num_tokens > 0;
        walker.num_computed = walker.num_planned = match.num_tokens;
        check_reads(walker, match.num_tokens);
        walkers.push_back(std::move(waiting.front()));
        waiting.pop_front();
        tell(*walkers.back());
    }

    void tell(Walker& walker) {
        for (int32_t g = 0; g < cache.num_groups(); ++g) {
            walker.told[g] = walker.cache.table(g).blocks();
        }
    }

    void plan_step() {
        Walker* walker = any();
        if (walker == nullptr || walker->cache.swapped_out()) return;
        if (static_cast<int>(uncommitted.size()) >= depth) return;
        const auto left = static_cast<int32_t>(walker->tokens.size()) - walker->num_planned;
        if (left == 0) return append_tokens(*walker, 1 + draw(4));
        const int32_t first = walker->num_planned;
        const int32_t count = std::min(left, 1 + draw(8));
        std::vector<BlockMove> copies;
        std::vector<TableChange> changes;
        const BlockCounts before = cache.stats().blocks;
        settle();
        const auto use = static_cast<StateUse>(draw(3));
        if (!cache.copy_on_write(walker->cache, first, copies, changes, use)) {
            wrong += !copies.empty() || !changes.empty();
            wrong += cache.stats().blocks.used != before.used;
            return;
        }
        settle();
        carry_out(copies);
        num_copies += static_cast<int>(copies.size());
        apply(changes);
        std::vector<std::vector<BlockId>> added;
        if (!cache.allocate(walker->cache, first + count, added)) return;
        settle();
        for (size_t g = 0; g < added.size(); ++g) {
            walker->told[g].insert(walker->told[g].end(), added[g].begin(), added[g].end());
        }
        walker->num_planned += count;
        cache.name_in_plan(walker->cache, ++plan_number);
        write(*walker, first, count);
        uncommitted.push_back({plan_number, walker->cache.owner(), count});
    }

    void write(const Walker& walker, int32_t first, int32_t count) {
        for (int32_t g = 0; g < cache.num_groups(); ++g) {
            if (is_state(g)) {
                update_state(g, walker, first, count);
                continue;
            }
            for (int32_t p = first; p < first + count; ++p) {
                slot(g, walker, p) = walker.digests[static_cast<size_t>(p)];
            }
        }
        check_reads(walker, first + count);
    }

    bool is_state(int32_t group) const {
        return config.groups[group].kind == CacheGroupKind::state;
    }

    // The state before the first position becomes the one after the last.
    void update_state(int32_t group, const Walker& walker, int32_t first, int32_t count) {
        uint64_t& state = device[group].at(walker.cache.table(group)[0])[0];
        if (first > 0) wrong += state != walker.digests[static_cast<size_t>(first - 1)];
        state = walker.digests[static_cast<size_t>(first + count - 1)];
    }

    // A match ends where every state group has a checkpoint with the right state.
    void check_match(const Walker& walker, const PrefixMatch& match) {
        for (int32_t g = 0; g < cache.num_groups() && match.num_tokens > 0; ++g) {
            if (!is_state(g)) continue;
            const PrefixNode& node = *match.contents.back();
            const std::optional<BlockId> checkpoint = PrefixIndex::block(node, g);
            const HostBlockId kept = node.groups[static_cast<size_t>(g)].host_block;
            wrong += !checkpoint && kept == kNoHostBlock;
            if (wrong > 0) return;
            const uint64_t state = checkpoint ? device[g].at(*checkpoint)[0] : host[g].at(kept)[0];
            wrong += state != walker.digests[static_cast<size_t>(match.num_tokens - 1)];
            ++num_checkpoints_used;
        }
    }

    uint64_t& slot(int32_t group, const Walker& walker, int32_t position) {
        const BlockId block = walker.cache.table(group)[position / config.block_size];
        return device[group].at(block)[static_cast<size_t>(position % config.block_size)];
    }

    // Whatever a query right after the first `count` positions reads is what this sequence computed
    // or would have.
    void check_reads(const Walker& walker, int32_t count) {
        for (int32_t g = 0; g < cache.num_groups(); ++g) {
            if (is_state(g)) continue;
            const int32_t window = config.groups[g].window;
            const int32_t first = window == 0 ? 0 : std::max(0, count - window + 1);
            for (int32_t p = first; p < count; ++p) {
                wrong += slot(g, walker, p) != walker.digests[static_cast<size_t>(p)];
            }
        }
    }

    void commit_step() {
        if (uncommitted.empty()) return;
        const Plan plan = uncommitted.front();
        uncommitted.pop_front();
        cache.plan_committed(plan.number);
        for (auto& walker : walkers) {
            if (walker->cache.owner() != plan.owner) continue;
            walker->num_computed += plan.count;
            cache.commit(walker->cache, walker->tokens, walker->num_computed);
        }
    }

    void leave() {
        if (walkers.empty()) return;
        const size_t who = static_cast<size_t>(draw(static_cast<int>(walkers.size())));
        if (draw(4) == 0) cache.discard(walkers[who]->cache);
        walkers.erase(walkers.begin() + static_cast<long>(who));
    }

    void fork() {
        Walker* parent = any();
        if (parent == nullptr || parent->cache.swapped_out() || walkers.size() > 12) return;
        auto child = std::make_unique<Walker>(cache, parent->salt, ++last_owner);
        const int32_t length = parent->num_planned;
        child->tokens.assign(parent->tokens.begin(), parent->tokens.begin() + length);
        append_tokens(*child, 1 + draw(6));
        cache.fork(child->cache, parent->cache, length);
        child->num_computed = child->num_planned = length;
        check_reads(*child, length);
        tell(*child);
        walkers.push_back(std::move(child));
    }

    void swap_out() {
        Walker* walker = any();
        if (walker == nullptr || walker->cache.empty() || in_flight(*walker)) return;
        std::vector<SwapMove> moves;
        if (!cache.swap_out(walker->cache, walker->num_planned, moves)) {
            wrong += !moves.empty() || walker->cache.swapped_out();
            return;
        }
        settle();
        copy_out(moves);
        wrong += !walker->cache.empty();
    }

    void swap_in() {
        Walker* walker = any();
        if (walker == nullptr || !walker->cache.swapped_out()) return;
        std::vector<SwapMove> moves;
        if (!cache.swap_in(walker->cache, draw(2), moves)) {
            wrong += !moves.empty() || !walker->cache.swapped_out();
            return;
        }
        settle();
        for (const SwapMove& move : moves) {
            const BlockTable& table = walker->cache.table(move.group);
            wrong += table[move.table_index] != move.device_block;
        }
        copy_in(moves);
        check_reads(*walker, walker->num_planned);
        tell(*walker);
    }

    void resize() {
        std::vector<int32_t> sizes;
        for (const CacheGroupConfig& group : config.groups) {
            sizes.push_back(1 + draw(2 * group.num_blocks));
        }
        std::vector<int32_t> targets = sizes;
        for (int32_t g = 0; g < cache.num_groups(); ++g) {
            targets[g] = std::min(sizes[g], cache.counts(g).total);
        }
        const BlockCounts before = cache.stats().blocks;
        const Result<Compaction> compaction = cache.compact(targets);
        if (!compaction.ok()) {
            wrong += cache.stats().blocks.cached != before.cached;
            return;
        }
        carry_out(compaction.value().moves);
        num_moves += static_cast<int>(compaction.value().moves.size());
        apply(compaction.value().changes);
        const auto fault = cache.resize(sizes);
        wrong += fault.has_value();
        for (size_t g = 0; g < sizes.size(); ++g) {
            const std::vector<uint64_t> block(static_cast<size_t>(config.block_size), 0);
            device[g].resize(static_cast<size_t>(sizes[g]), block);
        }
        for (const auto& walker : walkers) {
            if (!walker->cache.swapped_out()) check_reads(*walker, walker->num_planned);
        }
    }

    void copy_out(const std::vector<SwapMove>& moves) {
        for (const SwapMove& move : moves) {
            host[move.group].at(move.host_block) = device[move.group].at(move.device_block);
        }
    }

    void copy_in(const std::vector<SwapMove>& moves) {
        for (const SwapMove& move : moves) {
            device[move.group].at(move.device_block) = host[move.group].at(move.host_block);
        }
    }

    // Between the device and contents in host memory.
    void settle() {
        std::vector<SwapMove> out;
        std::vector<SwapMove> in;
        cache.take_tier_moves(out, in);
        copy_out(out);
        copy_in(in);
    }

    void carry_out(const std::vector<BlockMove>& moves) {
        for (const BlockMove& move : moves) {
            device[move.group].at(move.to) = device[move.group].at(move.from);
        }
    }

    void apply(const std::vector<TableChange>& changes) {
        for (const TableChange& change : changes) {
            for (auto& walker : walkers) {
                if (walker->cache.owner() != change.owner) continue;
                walker->told[change.group].at(change.index) = change.block;
            }
        }
    }

    void check() {
        std::vector<const SequenceBlocks*> all;
        for (const auto& walker : waiting) all.push_back(&walker->cache);
        for (const auto& walker : walkers) {
            all.push_back(&walker->cache);
            for (int32_t g = 0; g < cache.num_groups() && !walker->cache.swapped_out(); ++g) {
                wrong += walker->told[g] != walker->cache.table(g).blocks();
            }
        }
        cache.check_integrity(all);
    }

    struct Plan {
        uint64_t number = 0;
        uint64_t owner = 0;
        int32_t count = 0;
    };

    CacheConfig config;
    CacheManager cache;
    std::mt19937 random;
    int depth;
    std::vector<Memory> device;  // per group
    std::vector<Memory> host;
    std::deque<std::unique_ptr<Walker>> waiting;
    std::vector<std::unique_ptr<Walker>> walkers;
    std::deque<Plan> uncommitted;
    uint64_t plan_number = 0;
    uint64_t last_owner = 0;
    int wrong = 0;
    int hits = 0;
    int num_copies = 0;
    int num_moves = 0;
    int num_checkpoints_used = 0;
};

}  // namespace nvllm
