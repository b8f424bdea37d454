// The disk tier of a worker without a model: blocks of files, read and written some plans later.
//
// A block is copied when its copy ends, not when it begins: a host block that is used for something
// else meanwhile is noticed by whoever reads what came of it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "lib/cache/cache_manager.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"
#include "tests/lib/cache/kv_slots.h"

namespace nvllm {

class FakeFiles {
  public:
    static constexpr int32_t kBlocks = 4096;

    explicit FakeFiles(const CacheConfig& cache) {
        for (const CacheGroupConfig& group : cache.groups) {
            (void)group;
            slots_.emplace_back(kBlocks, cache.block_size, 0);
        }
    }

    // What a plan says; what has ended.
    std::vector<DiskEvent> step(const BatchPlan& plan, std::vector<KvSlots>& host) {
        for (const DiskMove& move : plan.disk_reads) jobs_.push_back({true, move});
        for (const DiskMove& move : plan.disk_writes) jobs_.push_back({false, move});
        std::vector<DiskEvent> events;
        int num_ending = plan.awaits_disk ? 1 : static_cast<int>(random_() % 4);
        for (; num_ending > 0 && !jobs_.empty(); --num_ending) {
            const auto [is_read, move] = jobs_.front();
            jobs_.pop_front();
            const bool fails = failures != 0 && random_() % failures == 0;
            KvSlots& there = host[static_cast<size_t>(move.group)];
            events.push_back({is_read, move.number,
                              is_read ? read(move, there, fails) : write(move, there, fails)});
        }
        return events;
    }
    // What a fresh worker knows; the files stay.
    void restart() { jobs_.clear(); }

    unsigned failures = 0;  // one in so many copies fails; 0: none
    int64_t num_read = 0;
    int64_t num_written = 0;

  private:
    struct Job {
        bool is_read;
        DiskMove move;
    };
    struct Block {
        int32_t index = 0;
        uint64_t seed = 0;
    };
    using Place = std::pair<uint64_t, uint64_t>;

    bool read(const DiskMove& move, KvSlots& host, bool fails) {
        const auto found = places_.find({move.place.segment, move.place.offset});
        const bool succeeds = !fails && found != places_.end() && found->second.seed == move.seed;
        // What was read before a fault was noticed.
        const int32_t from = succeeds ? found->second.index : kBlocks - 1;
        host.take_block(slots_[static_cast<size_t>(move.group)], from, move.host_block);
        num_read += succeeds ? 1 : 0;
        return succeeds;
    }

    bool write(const DiskMove& move, const KvSlots& host, bool fails) {
        if (fails || num_blocks_ == kBlocks - 1) return false;
        slots_[static_cast<size_t>(move.group)].take_block(host, move.host_block, num_blocks_);
        places_[{move.place.segment, move.place.offset}] = {num_blocks_++, move.seed};
        ++num_written;
        return true;
    }

    std::vector<KvSlots> slots_;  // of each group; the last block is never written
    std::map<Place, Block> places_;
    int32_t num_blocks_ = 0;
    std::deque<Job> jobs_;
    std::mt19937 random_{5};
};

}  // namespace nvllm
