// What is read from files: what a waiting sequence begins with and no other tier has.
//
// It is read into host blocks, whose contents are then the host tier's, before the sequence is
// admitted. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "lib/cache/cache_shape.h"
#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/prefix/reuse_hints.h"
#include "lib/cache/sequence_blocks.h"
#include "lib/cache/tiers/disk_move.h"
#include "lib/cache/tiers/disk_store.h"
#include "lib/cache/tiers/host_tier.h"

namespace nvllm {

class DiskReads {
  public:
    DiskReads(const CacheShape& shape, PrefixIndex& index, ReuseHints& hints, SwapSpace& space,
              HostTier& host)
        : shape_(shape), index_(index), hints_(hints), space_(space), host_(host) {}
    DiskReads(const DiskReads&) = delete;
    DiskReads& operator=(const DiskReads&) = delete;

    // Begins to read what the files have behind the blocks that other tiers hold, once for each
    // sequence. False, with nothing begun: sequences that came before it are still to use the host
    // blocks. REQUIRES: `tokens` are the sequence's.
    bool begin(CacheSequence& sequence, std::span<const int32_t> tokens, DiskStore& store);
    bool is_under_way(const CacheSequence& sequence) const {
        return sequence.last_read > last_ended_;
    }
    // The sequence is admitted, or gone: others may have the host blocks.
    void end(CacheSequence& sequence) {
        num_blocks_for_waiting_ -= std::exchange(sequence.num_blocks_read, 0);
    }

    // Appends what the next plan begins.
    void take_moves(std::vector<DiskMove>& moves);
    void take_event(const DiskEvent& event, DiskStore& store);
    // Nothing is under way any more.
    void clear();

    bool empty() const { return reads_.empty(); }
    int64_t num_blocks() const { return num_blocks_; }
    int64_t num_tokens() const { return num_tokens_; }
    // Of copies under way.
    template <typename Visit>
    void visit(Visit visit) const {
        for (const Read& read : reads_) visit(read.move);
    }

  private:
    struct Read {
        DiskMove move;
        PrefixNode* node;  // pinned
    };
    // A block to be read.
    struct Needed {
        int32_t block;
        int32_t group;
        DiskPlace place;
    };
    // Numbers of leading blocks.
    struct Lengths {
        int32_t held = 0;               // that other tiers have
        std::vector<int32_t> possible;  // with files, the least first
    };
    enum class Begun : uint8_t { yes, no, later };

    Lengths lengths(CacheSequence& sequence, std::span<const int32_t> tokens,
                    const DiskStore& store) const;
    bool find_needed(CacheSequence& sequence, std::span<const int32_t> tokens, int32_t num_blocks,
                     const DiskStore& store, std::vector<Needed>& needed) const;
    Begun begin(CacheSequence& sequence, std::span<const int32_t> tokens, int32_t num_blocks,
                DiskStore& store);
    bool fits(std::span<const Needed> needed) const;
    void add(CacheSequence& sequence, PrefixNode& node, const Needed& needed, size_t num_earlier);
    void end_first();

    const CacheShape& shape_;
    PrefixIndex& index_;
    ReuseHints& hints_;
    SwapSpace& space_;
    HostTier& host_;
    std::deque<Read> reads_;  // in the order of their numbers
    size_t num_begun_ = 0;    // of those, that are in a plan
    uint64_t last_number_ = 0;
    uint64_t last_ended_ = 0;
    int32_t num_blocks_for_waiting_ = 0;
    int64_t num_blocks_ = 0;  // that came
    int64_t num_tokens_ = 0;  // that sequences were spared
};

}  // namespace nvllm
