// Shuffles and votes as meetings of lanes.
#include "kernels/cuda_emulation/warp.h"

#include <string>

#include "kernels/cuda_emulation/collective.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"

namespace nvllm::gpu::emulation {

namespace {

struct ShuffleLane {
    uint64_t value = 0;
    int source = 0;
    uint64_t result = 0;
};

struct VoteLane {
    bool yes = false;
    uint32_t result = 0;
};

void combine_shuffle(Meeting& meeting) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
        if (!meeting.has(lane)) continue;
        auto& own = meeting.of<ShuffleLane>(lane);
        if (!meeting.has(own.source)) {
            Scheduler::instance().fail_at(
                meeting.where, "lane " + std::to_string(lane) + " takes the value of lane " +
                                   std::to_string(own.source) + ", which is not in the mask");
        }
        own.result = meeting.of<ShuffleLane>(own.source).value;
    }
}

void combine_vote(Meeting& meeting) {
    uint32_t votes = 0;
    for (int lane = 0; lane < kWarpSize; ++lane) {
        if (meeting.has(lane) && meeting.of<VoteLane>(lane).yes) votes |= 1u << lane;
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
        if (meeting.has(lane)) meeting.of<VoteLane>(lane).result = votes;
    }
}

void combine_sync(Meeting& meeting) {
    if (races::watching()) races::note_warp_barrier(current->warp, meeting.mask);
}

}  // namespace

uint64_t shuffle_bits(uint32_t mask, uint64_t bits, int source_lane, const char* operation,
                      const Site& where) {
    ShuffleLane own{bits, source_lane, 0};
    meet(mask, operation, &own, combine_shuffle, where);
    return own.result;
}

uint32_t vote(uint32_t mask, bool yes, const char* operation, const Site& where) {
    VoteLane own{yes, 0};
    meet(mask, operation, &own, combine_vote, where);
    return own.result;
}

void sync_lanes(uint32_t mask, const Site& where) {
    int nothing = 0;
    meet(mask, "sync_warp", &nothing, combine_sync, where);
}

}  // namespace nvllm::gpu::emulation
