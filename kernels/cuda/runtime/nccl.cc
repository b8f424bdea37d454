// Collectives on device memory by NCCL, which is opened at run time and needs no headers.
//
// Sums do not use ncclAllReduce, whose order depends on the message and the topology: slices are
// exchanged, summed in the order of the ranks, and gathered.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/collectives.h"
#include "kernels/context.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/nccl_library.h"
#include "kernels/error.h"
#include "kernels/rank_sums.h"

namespace nvllm::cuda {
namespace {

constexpr int kBytes = 1;           // ncclUint8
constexpr int64_t kSliceUnit = 64;  // elements: slices begin where vectors may be loaded
constexpr size_t kAlignment = 256;  // bytes

struct UniqueId {
    std::array<char, 128> bytes;
};
using Communicator = void*;

struct Library {
    CollectivesLibrary info;
    std::string fault;  // why its operations cannot be called; empty: they can

    const char* (*error_string)(int status) = nullptr;
    int (*get_unique_id)(UniqueId* id) = nullptr;
    int (*init_rank)(Communicator* communicator, int num_ranks, UniqueId id, int rank) = nullptr;
    int (*destroy)(Communicator communicator) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*all_gather)(const void* from, void* to, size_t count, int type, Communicator communicator,
                      void* stream) = nullptr;
    int (*broadcast)(const void* from, void* to, size_t count, int type, int root,
                     Communicator communicator, void* stream) = nullptr;
    int (*send)(const void* from, size_t count, int type, int rank, Communicator communicator,
                void* stream) = nullptr;
    int (*receive)(void* to, size_t count, int type, int rank, Communicator communicator,
                   void* stream) = nullptr;
};

// Since 2.9 ten thousands are the major version.
std::string version_text(int version) {
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
}

CollectivesLibrary ask_version(const SharedLibrary& library) {
    CollectivesLibrary found{"NCCL", "", library.file, library.fault};
    if (library.handle == nullptr) return found;
    const auto version = library.find<int(int*)>("ncclGetVersion");
    int number = 0;
    if (version == nullptr || version(&number) != 0) {
        found.fault = library.file + " does not say its version (ncclGetVersion)";
        return found;
    }
    found.version = version_text(number);
    return found;
}

template <typename Function>
void find(const SharedLibrary& opened, const char* name, Function*& function, Library& library) {
    function = opened.find<Function>(name);
    if (function == nullptr) library.fault = opened.file + " lacks " + name;
}

Library open() {
    const SharedLibrary opened = open_nccl();
    Library library;
    library.info = ask_version(opened);
    library.fault = library.info.fault;
    if (!library.fault.empty()) return library;
    find(opened, "ncclGetErrorString", library.error_string, library);
    find(opened, "ncclGetUniqueId", library.get_unique_id, library);
    find(opened, "ncclCommInitRank", library.init_rank, library);
    find(opened, "ncclCommDestroy", library.destroy, library);
    find(opened, "ncclGroupStart", library.group_start, library);
    find(opened, "ncclGroupEnd", library.group_end, library);
    find(opened, "ncclAllGather", library.all_gather, library);
    find(opened, "ncclBroadcast", library.broadcast, library);
    find(opened, "ncclSend", library.send, library);
    find(opened, "ncclRecv", library.receive, library);
    return library;
}

const Library& opened_library() {
    static const Library library = open();
    return library;
}

// Whose operations can be called.
const Library& nccl() {
    const Library& library = opened_library();
    if (!library.fault.empty()) throw Error(ErrorKind::unavailable, "NCCL: " + library.fault);
    return library;
}

CollectivesLibrary look_for_nccl() { return opened_library().info; }

void check(int status, const char* function) {
    if (status == 0) return;
    throw Error(ErrorKind::unavailable,
                std::string(function) + " failed: " + nccl().error_string(status));
}

// One rank's membership.
struct Group {
    int rank = 0;
    int num_ranks = 1;
    int device = 0;
    size_t max_sum_bytes = 0;
    Communicator communicator = nullptr;
    // The slices of all ranks, then two slices in float32.
    std::byte* scratch = nullptr;
    mutable uint64_t bytes_sent = 0;  // to other ranks

    ~Group() {
        if (communicator != nullptr) nccl().destroy(communicator);
        if (scratch != nullptr) device::give_back(device, scratch);
    }
};

Group& group_of(CollectiveGroup group) { return *reinterpret_cast<Group*>(group); }

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

RankSlice slice_of(int64_t count, int rank, int num_ranks) {
    const RankSlice units = slice_of_rank((count + kSliceUnit - 1) / kSliceUnit, rank, num_ranks);
    const int64_t first = std::min(count, units.first * kSliceUnit);
    return {first, std::min(count - first, units.count * kSliceUnit)};
}

// A row of float16 is twice as long in float32; each row is padded.
size_t scratch_bytes(const GroupSetup& setup) {
    const auto ranks = static_cast<size_t>(setup.num_ranks);
    const size_t row = setup.max_sum_bytes / ranks + kSliceUnit * sizeof(float) + kAlignment;
    return ranks * padded(row) + 2 * padded(2 * row);
}

GroupId make_id() {
    UniqueId unique{};
    check(nccl().get_unique_id(&unique), "ncclGetUniqueId");
    GroupId id;
    std::memcpy(id.bytes.data(), unique.bytes.data(), id.bytes.size());
    return id;
}

CollectiveGroup join(const GroupSetup& setup) {
    device::make_current(setup.device);
    UniqueId unique{};
    std::memcpy(unique.bytes.data(), setup.id.bytes.data(), unique.bytes.size());
    auto group = std::make_unique<Group>();
    group->rank = setup.rank;
    group->num_ranks = setup.num_ranks;
    group->device = setup.device;
    group->max_sum_bytes = setup.max_sum_bytes;
    group->scratch = static_cast<std::byte*>(device::take(setup.device, scratch_bytes(setup)));
    if (group->scratch == nullptr) {
        throw Error(ErrorKind::does_not_fit, "no device memory for the sums of a group of ranks");
    }
    check(nccl().init_rank(&group->communicator, setup.num_ranks, unique, setup.rank),
          "ncclCommInitRank");
    return reinterpret_cast<CollectiveGroup>(group.release());
}

void leave(CollectiveGroup group) { delete &group_of(group); }

// The operations of `action` are one operation of NCCL.
template <typename Action>
void as_one(Action&& action) {
    check(nccl().group_start(), "ncclGroupStart");
    action();
    check(nccl().group_end(), "ncclGroupEnd");
}

void send_to(const Group& group, void* stream, const void* from, size_t bytes, int rank) {
    if (rank != group.rank) group.bytes_sent += bytes;
    check(nccl().send(from, bytes, kBytes, rank, group.communicator, stream), "ncclSend");
}

void receive_from(const Group& group, void* stream, void* to, size_t bytes, int rank) {
    check(nccl().receive(to, bytes, kBytes, rank, group.communicator, stream), "ncclRecv");
}

// The rows at `slices` become their sum, at `sum`, in the order of the ranks.
void sum_slices(const Group& group, void* stream, DType dtype, std::byte* slices, size_t pitch,
                int64_t count, void* sum) {
    const Device device{DeviceKind::cuda, group.device};
    Context context{.device = device};
    context.stream = stream;
    std::byte* const floats = slices + static_cast<size_t>(group.num_ranks) * pitch;
    const TensorView total(floats, DType::f32, {1, count}, device);
    const TensorView term(floats + padded(static_cast<size_t>(count) * sizeof(float)), DType::f32,
                          {1, count}, device);
    for (int rank = 0; rank < group.num_ranks; ++rank) {
        const ConstTensorView slice(slices + static_cast<size_t>(rank) * pitch, dtype, {1, count},
                                    device);
        cuda::convert(context, slice, rank == 0 ? total : term);
        if (rank > 0) cuda::add(context, term, total);
    }
    cuda::convert(context, total, TensorView(sum, dtype, {1, count}, device));
}

void check_sum(const Group& group, DType dtype, int64_t count) {
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
        throw Error(ErrorKind::bad_data,
                    std::string("devices do not sum values of type ") + dtype_name(dtype));
    }
    if (static_cast<size_t>(count) * dtype_bytes(dtype) > group.max_sum_bytes) {
        throw Error(ErrorKind::does_not_fit, "a sum has more bytes than its group reserved");
    }
}

void all_reduce(CollectiveGroup handle, void* stream, DType dtype, void* values, int64_t count) {
    const Group& group = group_of(handle);
    check_sum(group, dtype, count);
    if (group.num_ranks == 1 || count == 0) return;
    device::make_current(group.device);
    const size_t value_bytes = dtype_bytes(dtype);
    const auto slice = [&](int rank) { return slice_of(count, rank, group.num_ranks); };
    const auto bytes_of = [&](int rank) {
        return static_cast<size_t>(slice(rank).count) * value_bytes;
    };
    const auto begin_of = [&](int rank) {
        return static_cast<std::byte*>(values) +
               static_cast<size_t>(slice(rank).first) * value_bytes;
    };
    const size_t pitch = padded(bytes_of(0));
    as_one([&] {
        for (int rank = 0; rank < group.num_ranks; ++rank) {
            send_to(group, stream, begin_of(rank), bytes_of(rank), rank);
            receive_from(group, stream, group.scratch + static_cast<size_t>(rank) * pitch,
                         bytes_of(group.rank), rank);
        }
    });
    const int64_t own = slice(group.rank).count;
    if (own > 0) {
        sum_slices(group, stream, dtype, group.scratch, pitch, own, begin_of(group.rank));
    }
    as_one([&] {
        for (int rank = 0; rank < group.num_ranks; ++rank) {
            if (rank == group.rank) continue;
            send_to(group, stream, begin_of(group.rank), bytes_of(group.rank), rank);
            receive_from(group, stream, begin_of(rank), bytes_of(rank), rank);
        }
    });
}

void all_gather(CollectiveGroup handle, void* stream, const void* from, void* to, size_t bytes) {
    const Group& group = group_of(handle);
    device::make_current(group.device);
    group.bytes_sent += static_cast<uint64_t>(group.num_ranks - 1) * bytes;
    check(nccl().all_gather(from, to, bytes, kBytes, group.communicator, stream), "ncclAllGather");
}

void all_to_all(CollectiveGroup handle, void* stream, const void* from, void* to, size_t bytes) {
    const Group& group = group_of(handle);
    device::make_current(group.device);
    as_one([&] {
        for (int rank = 0; rank < group.num_ranks; ++rank) {
            const size_t offset = static_cast<size_t>(rank) * bytes;
            send_to(group, stream, static_cast<const std::byte*>(from) + offset, bytes, rank);
            receive_from(group, stream, static_cast<std::byte*>(to) + offset, bytes, rank);
        }
    });
}

void exchange(CollectiveGroup handle, void* stream, const void* from, const size_t* from_bytes,
              void* to, const size_t* to_bytes) {
    const Group& group = group_of(handle);
    device::make_current(group.device);
    as_one([&] {
        const auto* source = static_cast<const std::byte*>(from);
        auto* target = static_cast<std::byte*>(to);
        for (int rank = 0; rank < group.num_ranks; ++rank) {
            if (from_bytes[rank] > 0) send_to(group, stream, source, from_bytes[rank], rank);
            if (to_bytes[rank] > 0) receive_from(group, stream, target, to_bytes[rank], rank);
            source += from_bytes[rank];
            target += to_bytes[rank];
        }
    });
}

void broadcast(CollectiveGroup handle, void* stream, void* values, size_t bytes, int root) {
    const Group& group = group_of(handle);
    device::make_current(group.device);
    if (root == group.rank) group.bytes_sent += static_cast<uint64_t>(group.num_ranks - 1) * bytes;
    check(nccl().broadcast(values, values, bytes, kBytes, root, group.communicator, stream),
          "ncclBroadcast");
}

void send(CollectiveGroup handle, void* stream, const void* from, size_t bytes, int to_rank) {
    const Group& group = group_of(handle);
    device::make_current(group.device);
    send_to(group, stream, from, bytes, to_rank);
}

void receive(CollectiveGroup handle, void* stream, void* to, size_t bytes, int from_rank) {
    const Group& group = group_of(handle);
    device::make_current(group.device);
    receive_from(group, stream, to, bytes, from_rank);
}

uint64_t bytes_sent(CollectiveGroup group) { return group_of(group).bytes_sent; }

}  // namespace
}  // namespace nvllm::cuda

NVLLM_COLLECTIVES_ENTRY() {
    using namespace nvllm::cuda;
    static const nvllm::CollectivesTable table{.name = "nccl",
                                               .on_device = true,
                                               .look = look_for_nccl,
                                               .make_id = make_id,
                                               .join = join,
                                               .leave = leave,
                                               .all_reduce = all_reduce,
                                               .all_gather = all_gather,
                                               .all_to_all = all_to_all,
                                               .exchange = exchange,
                                               .broadcast = broadcast,
                                               .send = send,
                                               .receive = receive,
                                               .bytes_sent = bytes_sent};
    return &table;
}
