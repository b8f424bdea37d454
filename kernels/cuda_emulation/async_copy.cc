// Asynchronous copies, as late as they may happen: the destination holds poison from the issue to
// the wait, and the source is read in the wait. Settings::copies asks for the other extreme, at
// issue.
#include "kernels/cuda_emulation/async_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/accesses.h"
#include "kernels/cuda_emulation/copies.h"
#include "kernels/cuda_emulation/counters.h"
#include "kernels/cuda_emulation/memory.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu {

namespace emulation {

namespace {

constexpr size_t kCopyBytes = 16;
constexpr int kPoison = 0xff;

struct Copy {
    void* to = nullptr;
    const void* from = nullptr;
    size_t bytes = 0;  // the rest is zeros
    Site where;
    Origin origin = nullptr;
};

// A thread's copies, oldest first; groups[i] is where group i ends in them.
struct Queue {
    std::vector<Copy> copies;
    std::vector<size_t> groups;
};

std::array<Queue, kMaxThreads> queues;

Queue& own_queue() { return queues[static_cast<size_t>(current->number)]; }

void perform(const Copy& copy) {
    std::byte bytes[kCopyBytes] = {};
    std::memcpy(bytes, copy.from, copy.bytes);
    std::memcpy(copy.to, bytes, kCopyBytes);
}

void start(const Copy& copy) {
    if (races::watching()) races::start_copy(*current, copy.to, copy.origin);
    if (counting()) {
        count_access(*current, copy.to, kCopyBytes, Access::write, copy.origin);
        if (copy.bytes > 0)
            count_access(*current, copy.from, copy.bytes, Access::read, copy.origin);
    }
    if (Scheduler::instance().settings().copies == CopyTiming::early) {
        perform(copy);
    } else {
        std::memset(copy.to, kPoison, kCopyBytes);
    }
    own_queue().copies.push_back(copy);
}

}  // namespace

void reset_copies() {
    for (int number = 0; number < Scheduler::instance().num_threads(); ++number) {
        Queue& queue = queues[static_cast<size_t>(number)];
        queue.copies.clear();
        queue.groups.clear();
    }
}

void check_copies_at_end() {
    const Queue& queue = own_queue();
    if (queue.copies.empty()) return;
    Scheduler::instance().fail_at(queue.copies.front().where,
                                  "the thread ends without having waited for its copy from here");
}

void wait_for_copies(int groups_left, const Site&) {
    Queue& queue = own_queue();
    const auto left = static_cast<size_t>(groups_left);
    if (queue.groups.size() <= left) return;
    const size_t done_groups = queue.groups.size() - left;
    const size_t done = queue.groups[done_groups - 1];
    if (races::watching()) {
        std::for_each_n(queue.copies.begin(), done, [](const Copy& copy) {
            races::end_copy(*current, copy.to, copy.from, copy.bytes, copy.origin);
        });
    }
    if (Scheduler::instance().settings().copies == CopyTiming::late) {
        std::for_each_n(queue.copies.begin(), done, perform);
    }
    queue.copies.erase(queue.copies.begin(),
                       queue.copies.begin() + static_cast<std::ptrdiff_t>(done));
    queue.groups.erase(queue.groups.begin(),
                       queue.groups.begin() + static_cast<std::ptrdiff_t>(done_groups));
    for (size_t& end : queue.groups) end -= done;
}

}  // namespace emulation

void cp_async16(void* shared, const void* global, int bytes_read, emulation::Site where) {
    emulation::Scheduler& scheduler = emulation::Scheduler::instance();
    emulation::shared_offset(shared, where);
    emulation::check_alignment(shared, emulation::kCopyBytes,
                               "an asynchronous copy to shared memory", where);
    if (bytes_read < 0 || bytes_read > 16) {
        scheduler.fail_at(where,
                          "an asynchronous copy of " + std::to_string(bytes_read) + " of 16 bytes");
    }
    if (bytes_read > 0) {
        emulation::check_alignment(global, emulation::kCopyBytes,
                                   "an asynchronous copy from global memory", where);
    }
    emulation::start({shared, global, static_cast<size_t>(bytes_read), where, NVLLM_CALLER});
}

void cp_async_commit() {
    emulation::Queue& queue = emulation::own_queue();
    queue.groups.push_back(queue.copies.size());
}

}  // namespace nvllm::gpu
