// Transaction barriers in a table by address; what lies in shared memory is never looked at.
#include "kernels/cuda_emulation/transaction_barrier.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda_emulation/memory.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu {

namespace emulation {

namespace {

struct State {
    uint32_t arrivals = 0;  // of a phase
    uint32_t missing = 0;
    int64_t missing_bytes = 0;
    uint32_t phase = 0;
    std::vector<int> waiting;    // threads
    races::Knowledge knowledge;  // of those who have arrived
};

std::unordered_map<const void*, State> barriers;

State& state_of(const void* barrier, const Site& where) {
    check_barrier(barrier, where);
    return barriers[barrier];
}

void complete_if_done(State& state) {
    if (state.missing > 0 || state.missing_bytes != 0) return;
    Scheduler& scheduler = Scheduler::instance();
    ++state.phase;
    state.missing = state.arrivals;
    for (const int number : state.waiting) scheduler.wake(scheduler.thread(number));
    state.waiting.clear();
}

void arrive_at(const void* barrier, uint32_t bytes, const Site& where) {
    State& state = state_of(barrier, where);
    state.missing_bytes += bytes;
    --state.missing;
    if (races::watching()) races::release(*current, state.knowledge);
    complete_if_done(state);
}

}  // namespace

void reset_transaction_barriers() { barriers.clear(); }

void check_barrier(const void* barrier, const Site& where) {
    if (barriers.contains(barrier)) return;
    Scheduler::instance().fail_at(where, "a transaction barrier that nobody has initialised");
}

void complete_bytes(const void* barrier, uint32_t bytes, int thread, uint32_t clock) {
    State& state = barriers[barrier];
    state.missing_bytes -= bytes;
    if (races::watching()) races::learn(state.knowledge, thread, clock);
    complete_if_done(state);
}

}  // namespace emulation

using emulation::Scheduler;

void init_barrier(TransactionBarrier* barrier, uint32_t arrivals, emulation::Site where) {
    emulation::shared_offset(barrier, where);
    emulation::check_alignment(barrier, 8, "a transaction barrier", where);
    if (arrivals == 0) Scheduler::fail("a transaction barrier without arrivals");
    emulation::barriers[barrier] = {
        .arrivals = arrivals, .missing = arrivals, .waiting = {}, .knowledge = {}};
}

void fence_barriers() {}

void arrive(TransactionBarrier* barrier, emulation::Site where) {
    emulation::arrive_at(barrier, 0, where);
}

void arrive_expecting(TransactionBarrier* barrier, uint32_t bytes, emulation::Site where) {
    emulation::arrive_at(barrier, bytes, where);
}

void wait_barrier(TransactionBarrier* barrier, uint32_t parity, emulation::Site where) {
    emulation::State& state = emulation::state_of(barrier, where);
    Scheduler& scheduler = Scheduler::instance();
    if (state.phase % 2 == parity % 2) {
        state.waiting.push_back(emulation::current->number);
        scheduler.wait("a transaction barrier", where);
    }
    if (emulation::races::watching()) {
        emulation::races::acquire(*emulation::current, state.knowledge);
    }
}

}  // namespace nvllm::gpu
