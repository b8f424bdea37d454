// Keys and values of a draft method's layers, in the blocks of the target: the block tables of a
// sequence are those of its target, so that the prefix cache, forks, swapping and moves hold for
// them by themselves.
//
// A method that reads tokens alone may compute rows later than the target does: it is kept count of
// how far each block is filled. That holds where its layers lie in one group that keeps everything.
//
// A few blocks in addition belong to no sequence: drafts that lie behind a sequence's last block
// are computed there, and their keys and values are lost with the step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/execute/kv_storage.h"
#include "lib/execute/worker_config.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"

namespace nvllm {

// For each cache group of a draft method the group of the target whose blocks it lies in: one that
// keeps all that its layers attend to. Throws bad_config where there is none.
std::vector<size_t> groups_of_target(std::span<const CacheLayout> target,
                                     std::span<const CacheLayout> drafts);

// Blocks behind a sequence's last one that its drafts may need, in each group.
inline int32_t tail_blocks(int32_t num_rows, int32_t block_size) {
    return (num_rows + block_size - 1) / block_size;
}

class DraftStorage {
  public:
    // `num_rows`: drafts of a sequence that are computed in a step, at most. Throws as KvStorage
    // and groups_of_target().
    DraftStorage(const std::vector<CacheLayout>& target, const std::vector<CacheLayout>& drafts,
                 const WorkerConfig& config, int32_t num_rows);

    // Indexed by the draft method's layers.
    std::span<const KvLayer> layers() const { return kv_.layers(); }
    // By groups of the draft method, of tables by groups of the target.
    std::vector<GroupTables> tables(std::span<const GroupTables> target) const;
    // What the plan does to blocks, in its order; the bytes between device and host.
    uint64_t move_blocks(const Context& context, const BatchPlan& plan);

    // Whether it is kept count of filled rows.
    bool counts_rows() const { return counted_group_.has_value(); }
    // The first position of a sequence whose row is not there. `tables`: by groups of the target.
    // REQUIRES: counts_rows().
    int32_t first_missing(std::span<const std::vector<int32_t>> tables) const;
    // The rows of its positions below `end` are there, as far as its blocks reach.
    void note_filled(std::span<const std::vector<int32_t>> tables, int32_t end);

    // The blocks from here on are of the `index`-th sequence with drafts of a step. `group`: of the
    // target.
    int32_t first_tail_block(size_t group, size_t index) const;

    size_t bytes() const { return kv_.bytes(); }

  private:
    template <typename Move>
    std::vector<Move> of_drafts(std::span<const Move> moves) const;
    std::vector<int32_t> blocks_by_group(std::span<const int32_t> of_target, int32_t further) const;
    void count_moves(const BatchPlan& plan);

    std::vector<size_t> groups_;  // the target's, by the draft method's
    std::vector<int32_t> num_blocks_;
    int32_t block_size_;
    int32_t tail_blocks_;
    int32_t max_sequences_;
    std::optional<size_t> counted_group_;  // of the target
    // Of its blocks, on the device and on the host: rows that are there, from the first on.
    std::vector<int32_t> filled_;
    std::vector<int32_t> host_filled_;
    KvStorage kv_;
};

}  // namespace nvllm
