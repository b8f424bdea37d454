// Arrivals at a block's barrier, counted.
#include "kernels/cuda_emulation/barrier.h"

#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"

namespace nvllm::gpu::emulation {

namespace {

struct Barrier {
    int arrived = 0;
    int first_thread = 0;
    Site where;
};

Barrier barrier;

void check_ended(Scheduler& scheduler, const Site& where) {
    if (scheduler.num_ended() == 0) return;
    int ended = 0;
    while (scheduler.thread(ended).fiber != nullptr ||
           (scheduler.ended_lanes(ended / kWarpSize) >> (ended % kWarpSize) & 1u) == 0) {
        ++ended;
    }
    scheduler.fail_at(
        where, "__syncthreads() waits for thread " + std::to_string(ended) + ", which has ended");
}

}  // namespace

void reset_block_barrier() { barrier = {}; }

void block_barrier(Site where) {
    Scheduler& scheduler = Scheduler::instance();
    check_ended(scheduler, where);
    if (barrier.arrived == 0) {
        barrier.where = where;
        barrier.first_thread = current->number;
    } else if (!(barrier.where == where)) {
        scheduler.fail_at(where, "divergent __syncthreads(): thread " +
                                     std::to_string(barrier.first_thread) + " is at that of " +
                                     barrier.where.describe());
    }
    if (++barrier.arrived < scheduler.num_threads()) {
        scheduler.wait("__syncthreads()", where);
        return;
    }
    barrier.arrived = 0;
    races::note_block_barrier();
    for (int number = 0; number < scheduler.num_threads(); ++number) {
        if (number != current->number) scheduler.wake(scheduler.thread(number));
    }
}

}  // namespace nvllm::gpu::emulation
