// A rank's memberships: the tensor group that shares out its layers, its pipeline, and the ranks
// that have the experts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/collectives.h"
#include "lib/parallel/rank_setup.h"

namespace nvllm {

// The table that a setup names. Throws unavailable where the module cannot be used.
const CollectivesTable& collectives_of(const RankSetup& setup);

// One id for each group of ranks that are started together, in the order of RankSetup::group_ids.
// `replicas`: that share out experts.
std::vector<GroupIdBytes> make_group_ids(const CollectivesTable& table, const ParallelSizes& sizes,
                                         int32_t replicas = 1);

class RankGroups {
  public:
    // Joins; waits for the other ranks. Throws what the table's join() throws. `device`: of tables
    // on devices, this rank's; `max_sum_bytes`: as GroupSetup has it.
    RankGroups(const RankSetup& setup, int device, size_t max_sum_bytes);

    // What a group takes of a device's memory for sums of so many bytes, at most.
    static uint64_t device_bytes(uint64_t max_sum_bytes);

    // Of a rank that cannot join: those that wait for it get an error, where they are threads of
    // this process.
    static void abandon(const RankSetup& setup);

    // Null where the rank shares no layer, and where all stages are its own.
    const RankGroup* tensor() const { return tensor_.get(); }
    // The tensor group, or that of all replicas which share out the experts.
    const RankGroup* experts() const { return experts_ ? experts_.get() : tensor_.get(); }
    const PipelineLink* pipeline() const { return link_ ? &*link_ : nullptr; }

    // Since they were joined, by this rank.
    uint64_t bytes_sent() const;
    std::chrono::nanoseconds time_spent() const;

  private:
    std::unique_ptr<RankGroup> tensor_;
    std::unique_ptr<RankGroup> experts_;
    std::unique_ptr<RankGroup> stages_;
    std::optional<PipelineLink> link_;
};

}  // namespace nvllm
