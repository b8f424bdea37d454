// NCCL's functions between threads of this process, under their own names: what nccl.cc opens where
// devices are emulated.
//
// Operations are done in the order of their stream. Those between ncclGroupStart and ncclGroupEnd
// are one: what is sent is on its way before anything is waited for.
#include <dlfcn.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/nccl_library.h"
#include "kernels/cuda_emulation/launch.h"

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidUsage = 5;
constexpr int kRemoteError = 6;
constexpr int kVersion = 22800;

struct UniqueId {
    std::array<char, 128> bytes;
};

using Message = std::vector<std::byte>;

// What all ranks of a communicator share.
struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    int num_joined = 0;
    bool has_left = false;                                    // some rank
    std::map<std::pair<int, int>, std::deque<Message>> ways;  // from a rank to a rank
};

struct Communicator {
    std::shared_ptr<Shared> shared;
    int rank = 0;
    int num_ranks = 1;
};

std::mutex& all_mutex() {
    static std::mutex mutex;
    return mutex;
}

std::map<std::array<char, 128>, std::shared_ptr<Shared>>& all() {
    static std::map<std::array<char, 128>, std::shared_ptr<Shared>> shared;
    return shared;
}

// An error that a stream's work had is told by the next call, as NCCL does.
thread_local int last_error = kSuccess;

void send_now(Communicator& own, const void* from, size_t bytes, int to_rank) {
    const auto* const begin = static_cast<const std::byte*>(from);
    const std::lock_guard lock(own.shared->mutex);
    own.shared->ways[{own.rank, to_rank}].emplace_back(begin, begin + bytes);
    own.shared->changed.notify_all();
}

void receive_now(Communicator& own, void* to, size_t bytes, int from_rank) {
    std::unique_lock lock(own.shared->mutex);
    std::deque<Message>& way = own.shared->ways[{from_rank, own.rank}];
    own.shared->changed.wait(lock, [&] { return !way.empty() || own.shared->has_left; });
    if (way.empty()) {
        last_error = kRemoteError;
        return;
    }
    if (way.front().size() != bytes) {
        last_error = kInvalidUsage;
        return;
    }
    if (bytes > 0) std::memcpy(to, way.front().data(), bytes);
    way.pop_front();
}

struct Operation {
    bool sends = false;
    std::function<void()> run;
};

thread_local int group_depth = 0;
thread_local std::vector<Operation> group;
thread_local void* group_stream = nullptr;

int submit_group() {
    std::vector<std::function<void()>> ordered;
    for (const bool sends : {true, false}) {
        for (Operation& operation : group) {
            if (operation.sends == sends) ordered.push_back(std::move(operation.run));
        }
    }
    group.clear();
    nvllm::gpu::emulation::submit(group_stream, [ordered] {
        for (const std::function<void()>& run : ordered) run();
    });
    return std::exchange(last_error, kSuccess);
}

int add(bool sends, std::function<void()> run, void* stream) {
    group.push_back({sends, std::move(run)});
    group_stream = stream;
    return group_depth > 0 ? kSuccess : submit_group();
}

Communicator& of(void* communicator) { return *static_cast<Communicator*>(communicator); }

size_t bytes_of(size_t count, int type) { return type == 1 ? count : 0; }  // ncclUint8 alone

}  // namespace

#define NVLLM_EMULATED_NCCL extern "C" __attribute__((visibility("default")))

NVLLM_EMULATED_NCCL int ncclGetVersion(int* version) {
    *version = kVersion;
    return kSuccess;
}

NVLLM_EMULATED_NCCL const char* ncclGetErrorString(int status) {
    return status == kRemoteError ? "another rank has left"
                                  : "an operation was used in a wrong way";
}

NVLLM_EMULATED_NCCL int ncclGetUniqueId(UniqueId* id) {
    static unsigned number = 0;
    const std::lock_guard lock(all_mutex());
    *id = {};
    ++number;
    std::memcpy(id->bytes.data(), &number, sizeof(number));
    return kSuccess;
}

NVLLM_EMULATED_NCCL int ncclCommInitRank(void** communicator, int num_ranks, UniqueId id,
                                         int rank) {
    std::shared_ptr<Shared> shared;
    {
        const std::lock_guard lock(all_mutex());
        std::shared_ptr<Shared>& found = all()[id.bytes];
        if (found == nullptr) found = std::make_shared<Shared>();
        shared = found;
    }
    std::unique_lock lock(shared->mutex);
    ++shared->num_joined;
    shared->changed.notify_all();
    shared->changed.wait(lock, [&] { return shared->num_joined == num_ranks; });
    *communicator = new Communicator{shared, rank, num_ranks};
    return kSuccess;
}

NVLLM_EMULATED_NCCL int ncclCommDestroy(void* communicator) {
    Communicator& own = of(communicator);
    {
        const std::lock_guard lock(own.shared->mutex);
        own.shared->has_left = true;
        own.shared->changed.notify_all();
    }
    delete &own;
    return kSuccess;
}

NVLLM_EMULATED_NCCL int ncclGroupStart() {
    ++group_depth;
    return kSuccess;
}

NVLLM_EMULATED_NCCL int ncclGroupEnd() { return --group_depth > 0 ? kSuccess : submit_group(); }

NVLLM_EMULATED_NCCL int ncclSend(const void* from, size_t count, int type, int rank,
                                 void* communicator, void* stream) {
    Communicator& own = of(communicator);
    return add(
        true,
        [&own, from, bytes = bytes_of(count, type), rank] { send_now(own, from, bytes, rank); },
        stream);
}

NVLLM_EMULATED_NCCL int ncclRecv(void* to, size_t count, int type, int rank, void* communicator,
                                 void* stream) {
    Communicator& own = of(communicator);
    return add(
        false,
        [&own, to, bytes = bytes_of(count, type), rank] { receive_now(own, to, bytes, rank); },
        stream);
}

NVLLM_EMULATED_NCCL int ncclAllGather(const void* from, void* to, size_t count, int type,
                                      void* communicator, void* stream) {
    Communicator& own = of(communicator);
    const size_t bytes = bytes_of(count, type);
    ncclGroupStart();
    for (int rank = 0; rank < own.num_ranks; ++rank) {
        ncclSend(from, count, type, rank, communicator, stream);
        ncclRecv(static_cast<std::byte*>(to) + static_cast<size_t>(rank) * bytes, count, type, rank,
                 communicator, stream);
    }
    return ncclGroupEnd();
}

NVLLM_EMULATED_NCCL int ncclBroadcast(const void* from, void* to, size_t count, int type, int root,
                                      void* communicator, void* stream) {
    Communicator& own = of(communicator);
    ncclGroupStart();
    for (int rank = 0; rank < own.num_ranks && own.rank == root; ++rank) {
        ncclSend(from, count, type, rank, communicator, stream);
    }
    ncclRecv(to, count, type, root, communicator, stream);
    return ncclGroupEnd();
}

namespace nvllm::cuda {

// This module itself.
SharedLibrary open_nccl() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&open_nccl), &info) == 0) return {};
    return open_first_library({info.dli_fname});
}

}  // namespace nvllm::cuda
