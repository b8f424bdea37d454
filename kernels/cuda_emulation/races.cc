// The race detector: for every eight bytes, the last accesses, each with the thread's time; and for
// every thread, how far it has seen the times of the other lanes of its warp.
//
// Times: a number for the span between two block barriers, unique in the process, and within it a
// count of the thread's sync_warp() calls.
#include "kernels/cuda_emulation/races.h"

#include <array>
#include <bit>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/shadow.h"
#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu::emulation::races {

namespace {

// What a thread knows.
struct Clock {
    uint32_t own = 1;
    std::array<uint32_t, kWarpSize> seen{};
    Knowledge others;  // of other warps; empty while no barrier but the block's is used
};

// The spans of a block that has handed over what it did.
struct Released {
    uint64_t first_span = 0;
    uint64_t last_span = 0;
};

struct State {
    uint64_t span = 0;         // between two barriers of a block
    uint64_t block_span = 0;   // the first of this block
    uint64_t launch_span = 0;  // the first of this launch
    bool fenced = false;       // a thread of this block has called thread_fence()
    std::array<Clock, kMaxThreads> clocks;
    Shadow shadow;
    std::vector<Origin> copies;  // by 16 bytes of shared memory: who has a copy in flight there
    std::unordered_map<const void*, std::vector<Released>> released;  // by atomic address
    std::vector<Released> acquired;                                   // by this block
};

State state;

Clock& clock_of(const Thread& thread) { return state.clocks[static_cast<size_t>(thread.number)]; }

bool acquired(uint64_t span) {
    for (const Released& block : state.acquired) {
        if (span >= block.first_span && span <= block.last_span) return true;
    }
    return false;
}

// Whether `earlier` is known to have happened before what `thread` does now.
bool ordered(const Record& earlier, const Thread& thread) {
    if (earlier.span < state.block_span) return acquired(earlier.span);
    if (earlier.span < state.span) return true;
    if (earlier.thread == thread.number) return true;
    const Clock& clock = clock_of(thread);
    if (earlier.thread / kWarpSize == thread.warp) {
        return earlier.clock <= clock.seen[static_cast<size_t>(earlier.thread % kWarpSize)];
    }
    return !clock.others.empty() && earlier.clock <= clock.others[earlier.thread];
}

const char* name_of(Access access) {
    return access == Access::read    ? "reads"
           : access == Access::write ? "writes"
                                     : "updates atomically";
}

std::string memory_name(const void* address) {
    if (!is_shared(address)) return "global memory";
    const char* name = shared_array_at(address, 1);
    return std::string("shared memory '") + (name ? name : "?") + "'";
}

[[noreturn]] void report(const Record& earlier, const Record& now, const Thread& thread,
                         const void* address) {
    Scheduler& scheduler = Scheduler::instance();
    const bool other_block = earlier.span < state.block_span;
    scheduler.fail("race in " + memory_name(address) + ": " + scheduler.describe(thread) + " " +
                   name_of(now.access) + " at " + describe_origin(now.origin) + " what " +
                   (other_block ? "a thread of another block, " : "thread ") +
                   std::to_string(earlier.thread) + " " + name_of(earlier.access) + " at " +
                   describe_origin(earlier.origin) + ", and nothing orders the two");
}

bool conflicts(const Record& earlier, const Record& now) {
    if ((earlier.bytes & now.bytes) == 0) return false;
    if (earlier.access == Access::read && now.access == Access::read) return false;
    return earlier.access != Access::atomic || now.access != Access::atomic;
}

// Whether knowing of `later` makes knowing of `earlier` needless; `earlier` is ordered before.
bool replaces(const Record& later, const Record& earlier) {
    return (earlier.bytes & ~later.bytes) == 0 &&
           (later.access == earlier.access || earlier.access == Access::read);
}

void check_cell(Cell& cell, const Record& now, const Thread& thread, const void* address) {
    // A block's shared memory is its own; global memory is the launch's.
    const uint64_t begin = is_shared(address) ? state.block_span : state.launch_span;
    Record* place = nullptr;
    for (Record& earlier : cell.records) {
        if (earlier.span < begin) {
            place = &earlier;
            continue;
        }
        if (!ordered(earlier, thread)) {
            if (conflicts(earlier, now)) report(earlier, now, thread, address);
        } else if (replaces(now, earlier)) {
            place = &earlier;
        }
    }
    if (place == nullptr) place = &cell.records[cell.next++ % cell.records.size()];
    *place = now;
}

void check_copies(const void* address, size_t bytes, const Thread& thread, Access access,
                  Origin origin) {
    const size_t first = shared_offset(address, {}) / 16;
    const size_t last = (shared_offset(address, {}) + bytes - 1) / 16;
    for (size_t i = first; i <= last && i < state.copies.size(); ++i) {
        if (state.copies[i] == nullptr) continue;
        Scheduler& scheduler = Scheduler::instance();
        scheduler.fail(scheduler.describe(thread) + " " + name_of(access) + " at " +
                       describe_origin(origin) + " " + memory_name(address) +
                       " while the asynchronous copy from " + describe_origin(state.copies[i]) +
                       " is in flight");
    }
}

void check_bounds(const void* address, size_t bytes, const Thread& thread, Access access,
                  Origin origin) {
    if (shared_array_at(address, bytes) != nullptr) return;
    Scheduler& scheduler = Scheduler::instance();
    scheduler.fail(scheduler.describe(thread) + " " + name_of(access) + " " +
                   std::to_string(bytes) + " bytes at " + describe_origin(origin) +
                   " that are not within one array of shared memory");
}

// The atomics of blocks: what one has handed over, another takes.
void exchange_by_atomic(const void* address) {
    std::vector<Released>& all = state.released[address];
    for (const Released& block : all) {
        if (block.first_span != state.block_span) state.acquired.push_back(block);
    }
    if (!state.fenced) return;
    if (all.empty() || all.back().first_span != state.block_span)
        all.push_back({state.block_span, state.span});
    all.back().last_span = state.span;
}

void join(Knowledge& into, const Knowledge& from) {
    if (from.empty()) return;
    into.resize(kMaxThreads);
    for (size_t i = 0; i < kMaxThreads; ++i) into[i] = std::max(into[i], from[i]);
}

void mark_copies(const void* shared, size_t bytes, Origin origin) {
    const size_t first = shared_offset(shared, {}) / 16;
    std::fill_n(state.copies.begin() + static_cast<std::ptrdiff_t>(first), (bytes + 15) / 16,
                origin);
}

void remember(const Thread& thread, uint32_t clock, const void* address, size_t bytes,
              Access access, Origin origin) {
    auto begin = reinterpret_cast<uintptr_t>(address);
    const uintptr_t end = begin + bytes;
    Record now{.span = state.span,
               .origin = origin,
               .clock = clock,
               .thread = static_cast<uint16_t>(thread.number),
               .bytes = 0,
               .access = access};
    while (begin < end) {
        const uintptr_t cell = begin / kCellBytes;
        const uintptr_t stop = std::min(end, (cell + 1) * kCellBytes);
        now.bytes = static_cast<uint8_t>(((1u << (stop - begin)) - 1) << begin % kCellBytes);
        check_cell(state.shadow.at(cell), now, thread, reinterpret_cast<const void*>(begin));
        begin = stop;
    }
}

}  // namespace

bool watching() { return has_access_hooks() && Scheduler::instance().settings().races; }

void begin_launch() {
    state.launch_span = ++state.span;
    state.released.clear();
    state.shadow.shrink();
    state.copies.assign(kMaxSharedBytes / 8, nullptr);
}

void begin_block() {
    state.block_span = ++state.span;
    state.fenced = false;
    state.acquired.clear();
    std::fill(state.copies.begin(), state.copies.end(), nullptr);
}

void note_block_barrier() { ++state.span; }

void note_warp_barrier(int warp, uint32_t mask) {
    std::array<uint32_t, kWarpSize> seen{};
    Knowledge others;
    const auto of_lane = [&](int lane) -> Clock& {
        return state.clocks[static_cast<size_t>(warp * kWarpSize + lane)];
    };
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = std::countr_zero(left);
        Clock& clock = of_lane(lane);
        clock.seen[static_cast<size_t>(lane)] = clock.own;
        for (size_t i = 0; i < seen.size(); ++i) seen[i] = std::max(seen[i], clock.seen[i]);
        join(others, clock.others);
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        Clock& clock = of_lane(std::countr_zero(left));
        clock.seen = seen;
        join(clock.others, others);
        ++clock.own;
    }
}

void note_fence() { state.fenced = true; }

void check(const Thread& thread, const void* address, size_t bytes, Access access, Origin origin) {
    if (is_shared(address)) {
        check_bounds(address, bytes, thread, access, origin);
        check_copies(address, bytes, thread, access, origin);
    } else if (access == Access::atomic) {
        exchange_by_atomic(address);
    }
    remember(thread, clock_of(thread).own, address, bytes, access, origin);
}

void release(const Thread& thread, Knowledge& barrier) {
    Clock& clock = clock_of(thread);
    join(barrier, clock.others);
    for (int lane = 0; lane < kWarpSize; ++lane) {
        learn(barrier, thread.warp * kWarpSize + lane, clock.seen[static_cast<size_t>(lane)]);
    }
    learn(barrier, thread.number, clock.own++);
}

void acquire(const Thread& thread, const Knowledge& barrier) {
    Clock& clock = clock_of(thread);
    join(clock.others, barrier);
    if (barrier.empty()) return;
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
        const size_t number = static_cast<size_t>(thread.warp * kWarpSize) + lane;
        clock.seen[lane] = std::max(clock.seen[lane], barrier[number]);
    }
}

void learn(Knowledge& barrier, int thread, uint32_t time) {
    barrier.resize(kMaxThreads);
    uint32_t& known = barrier[static_cast<size_t>(thread)];
    known = std::max(known, time);
}

uint32_t start_bulk_copy(const Thread& thread, const void* shared, size_t bytes, Origin origin) {
    check(thread, shared, bytes, Access::write, origin);
    mark_copies(shared, bytes, origin);
    return clock_of(thread).own++;
}

void end_bulk_copy(const void* shared, size_t bytes, int thread, uint32_t time, Origin origin) {
    mark_copies(shared, bytes, nullptr);
    remember(Scheduler::instance().thread(thread), time, shared, bytes, Access::write, origin);
}

void start_copy(const Thread& thread, const void* shared, Origin origin) {
    check(thread, shared, 16, Access::write, origin);
    state.copies[shared_offset(shared, {}) / 16] = origin;
}

void end_copy(const Thread& thread, const void* shared, const void* global, size_t bytes_read,
              Origin origin) {
    state.copies[shared_offset(shared, {}) / 16] = nullptr;
    check(thread, shared, 16, Access::write, origin);
    if (bytes_read > 0) check(thread, global, bytes_read, Access::read, origin);
}

}  // namespace nvllm::gpu::emulation::races
