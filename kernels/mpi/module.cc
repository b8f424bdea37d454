// The module libnanovllm_mpi.so: collectives on host memory between the processes that mpirun
// started.
//
// Sums do not use MPI_Allreduce, whose order depends on the message and the implementation: slices
// are exchanged, summed in the order of the ranks, and gathered.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/collectives.h"
#include "kernels/error.h"
#include "kernels/mpi/mpi_library.h"
#include "kernels/rank_sums.h"

namespace nvllm::mpi {
namespace {

constexpr int kFirstTag = 1;
constexpr int kSerialized = 2;  // MPI_THREAD_SERIALIZED
constexpr int kMultiple = 3;    // MPI_THREAD_MULTIPLE
// Counts are ints: larger messages go in pieces.
constexpr size_t kMaxBytes = size_t{1} << 30;

[[noreturn]] void refuse(ErrorKind kind, const std::string& why) {
    throw Error(kind, "MPI: " + why);
}

void check(int status, const char* function) {
    if (status == 0) return;
    refuse(ErrorKind::unavailable,
           std::string(function) + " failed with error " + std::to_string(status));
}

void finalize() {
    int is_finalized = 0;
    if (library().finalized(&is_finalized) == 0 && is_finalized == 0) library().finalize();
}

void initialize() {
    const Library& mpi = library();
    int is_initialized = 0;
    check(mpi.initialized(&is_initialized), "MPI_Initialized");
    if (is_initialized != 0) return;
    int provided = 0;
    check(mpi.init_thread(nullptr, nullptr, kMultiple, &provided), "MPI_Init_thread");
    // mpirun takes a process that ends without it for one that failed.
    std::atexit(finalize);
    if (provided < kSerialized) {
        refuse(ErrorKind::unavailable, "the library takes calls of its first thread only");
    }
}

// One rank's membership.
struct Group {
    int rank = 0;
    int num_ranks = 1;
    std::vector<int> members;  // in the world, by rank
    int tag = 0;
    std::vector<std::byte> slices = {};  // of all ranks, for sums
    uint64_t bytes_sent = 0;

    int world_rank(int of) const { return members[static_cast<size_t>(of)]; }
};

Group& group_of(CollectiveGroup group) { return *reinterpret_cast<Group*>(group); }

std::byte* row(void* values, int index, size_t bytes) {
    return static_cast<std::byte*>(values) + static_cast<size_t>(index) * bytes;
}
const std::byte* row(const void* values, int index, size_t bytes) {
    return static_cast<const std::byte*>(values) + static_cast<size_t>(index) * bytes;
}

// Calls action(offset, size) for each piece of `bytes`.
template <typename Action>
void for_each_piece(size_t bytes, Action&& action) {
    for (size_t done = 0; done < bytes; done += kMaxBytes) {
        action(done, static_cast<int>(std::min(kMaxBytes, bytes - done)));
    }
}

void send_bytes(Group& group, const void* from, size_t bytes, int to_rank) {
    const Library& mpi = library();
    group.bytes_sent += bytes;
    for_each_piece(bytes, [&](size_t offset, int size) {
        check(mpi.send(static_cast<const std::byte*>(from) + offset, size, mpi.byte,
                       group.world_rank(to_rank), group.tag, mpi.world),
              "MPI_Send");
    });
}

void receive_bytes(const Group& group, void* to, size_t bytes, int from_rank) {
    const Library& mpi = library();
    for_each_piece(bytes, [&](size_t offset, int size) {
        check(mpi.receive(static_cast<std::byte*>(to) + offset, size, mpi.byte,
                          group.world_rank(from_rank), group.tag, mpi.world, mpi.ignored_status),
              "MPI_Recv");
    });
}

// One message to a rank and one from another, of as many bytes as each says. `largest`: the most
// bytes that any rank exchanges in this operation, so that all make the same number of calls, of no
// bytes too.
void exchange(Group& group, const void* from, size_t from_bytes, int to_rank, void* to,
              size_t to_bytes, int from_rank, size_t largest) {
    const Library& mpi = library();
    group.bytes_sent += from_bytes;
    size_t done = 0;
    do {
        const size_t sent = std::min(done, from_bytes);
        const size_t received = std::min(done, to_bytes);
        check(mpi.exchange(static_cast<const std::byte*>(from) + sent,
                           static_cast<int>(std::min(kMaxBytes, from_bytes - sent)), mpi.byte,
                           group.world_rank(to_rank), group.tag,
                           static_cast<std::byte*>(to) + received,
                           static_cast<int>(std::min(kMaxBytes, to_bytes - received)), mpi.byte,
                           group.world_rank(from_rank), group.tag, mpi.world, mpi.ignored_status),
              "MPI_Sendrecv");
        done += kMaxBytes;
    } while (done < largest);
}

// Calls action(to_rank, from_rank) for every other rank, so that all ranks meet in pairs.
template <typename Action>
void for_each_pair(const Group& group, Action&& action) {
    for (int distance = 1; distance < group.num_ranks; ++distance) {
        action((group.rank + distance) % group.num_ranks,
               (group.rank - distance + group.num_ranks) % group.num_ranks);
    }
}

// Ranks are those of mpirun: the id only has to be there.
GroupId make_id() { return {}; }

[[noreturn]] void refuse_rank(int rank, int num_ranks, const std::string& expected) {
    refuse(ErrorKind::bad_config, "this is rank " + std::to_string(rank) + " of " +
                                      std::to_string(num_ranks) + ", not " + expected +
                                      ": start all ranks with one mpirun");
}

// Nothing but that they are there.
void meet(Group& group) {
    std::byte nothing{};
    for_each_pair(group, [&](int to_rank, int from_rank) {
        exchange(group, &nothing, 0, to_rank, &nothing, 0, from_rank, 0);
    });
}

CollectiveGroup join(const GroupSetup& setup) {
    const Library& mpi = library();
    if (!mpi.fault.empty()) refuse(ErrorKind::unavailable, mpi.fault);
    initialize();
    int rank = 0;
    int num_ranks = 0;
    check(mpi.comm_rank(mpi.world, &rank), "MPI_Comm_rank");
    check(mpi.comm_size(mpi.world, &num_ranks), "MPI_Comm_size");
    auto group = std::make_unique<Group>(
        Group{setup.rank, setup.num_ranks, setup.members, kFirstTag + setup.tag});
    if (group->members.empty()) {
        for (int member = 0; member < num_ranks; ++member) group->members.push_back(member);
    }
    if (std::ssize(group->members) != setup.num_ranks) {
        refuse_rank(
            rank, num_ranks,
            "rank " + std::to_string(setup.rank) + " of " + std::to_string(setup.num_ranks));
    }
    if (group->world_rank(setup.rank) != rank) {
        refuse_rank(rank, num_ranks, "rank " + std::to_string(group->world_rank(setup.rank)));
    }
    for (const int member : group->members) {
        if (member < 0 || member >= num_ranks) {
            refuse_rank(rank, num_ranks, "one of a group with rank " + std::to_string(member));
        }
    }
    meet(*group);
    return reinterpret_cast<CollectiveGroup>(group.release());
}

void leave(CollectiveGroup group) { delete &group_of(group); }

// The values at `slices` [ranks, share] are this rank's slice of every rank.
void fetch_slices(Group& group, const std::byte* values, int64_t count, size_t value_bytes) {
    const auto bytes_of = [&](int rank) {
        return static_cast<size_t>(slice_of_rank(count, rank, group.num_ranks).count) * value_bytes;
    };
    const auto begin_of = [&](int rank) {
        return values +
               static_cast<size_t>(slice_of_rank(count, rank, group.num_ranks).first) * value_bytes;
    };
    const size_t share = bytes_of(0);
    const size_t own = bytes_of(group.rank);
    group.slices.resize(share * static_cast<size_t>(group.num_ranks));
    std::byte* const slices = group.slices.data();
    if (own > 0) std::memcpy(row(slices, group.rank, share), begin_of(group.rank), own);
    for_each_pair(group, [&](int to_rank, int from_rank) {
        exchange(group, begin_of(to_rank), bytes_of(to_rank), to_rank,
                 row(slices, from_rank, share), own, from_rank, share);
    });
}

// Every rank's slice to all ranks, in place.
void gather_slices(Group& group, std::byte* values, int64_t count, size_t value_bytes) {
    const auto slice = [&](int rank) { return slice_of_rank(count, rank, group.num_ranks); };
    const RankSlice own = slice(group.rank);
    for_each_pair(group, [&](int to_rank, int from_rank) {
        const RankSlice theirs = slice(from_rank);
        exchange(group, values + static_cast<size_t>(own.first) * value_bytes,
                 static_cast<size_t>(own.count) * value_bytes, to_rank,
                 values + static_cast<size_t>(theirs.first) * value_bytes,
                 static_cast<size_t>(theirs.count) * value_bytes, from_rank,
                 static_cast<size_t>(slice(0).count) * value_bytes);
    });
}

void all_reduce(CollectiveGroup handle, void*, DType dtype, void* values, int64_t count) {
    Group& group = group_of(handle);
    const size_t value_bytes = dtype_bytes(dtype);
    auto* const bytes = static_cast<std::byte*>(values);
    const RankSlice own = slice_of_rank(count, group.rank, group.num_ranks);
    const size_t share =
        static_cast<size_t>(slice_of_rank(count, 0, group.num_ranks).count) * value_bytes;
    sum_in_rank_order(dtype, std::vector<const void*>{values}, {}, 0, 0);  // refuses other types
    fetch_slices(group, bytes, count, value_bytes);
    std::vector<const void*> slices;
    for (int rank = 0; rank < group.num_ranks; ++rank) {
        slices.push_back(row(group.slices.data(), rank, share));
    }
    void* const result = bytes + static_cast<size_t>(own.first) * value_bytes;
    sum_in_rank_order(dtype, slices, {&result, 1}, 0, own.count);
    gather_slices(group, bytes, count, value_bytes);
}

void all_gather(CollectiveGroup handle, void*, const void* from, void* to, size_t bytes) {
    Group& group = group_of(handle);
    if (bytes > 0) std::memmove(row(to, group.rank, bytes), from, bytes);
    for_each_pair(group, [&](int to_rank, int from_rank) {
        exchange(group, row(to, group.rank, bytes), bytes, to_rank, row(to, from_rank, bytes),
                 bytes, from_rank, bytes);
    });
}

void all_to_all(CollectiveGroup handle, void*, const void* from, void* to, size_t bytes) {
    Group& group = group_of(handle);
    if (bytes > 0) std::memcpy(row(to, group.rank, bytes), row(from, group.rank, bytes), bytes);
    for_each_pair(group, [&](int to_rank, int from_rank) {
        exchange(group, row(from, to_rank, bytes), bytes, to_rank, row(to, from_rank, bytes), bytes,
                 from_rank, bytes);
    });
}

void exchange_parts(CollectiveGroup handle, void*, const void* from, const size_t* from_bytes,
                    void* to, const size_t* to_bytes) {
    Group& group = group_of(handle);
    std::vector<const std::byte*> sent;
    std::vector<std::byte*> received;
    const auto* source = static_cast<const std::byte*>(from);
    auto* target = static_cast<std::byte*>(to);
    for (int rank = 0; rank < group.num_ranks; ++rank) {
        if (from_bytes[rank] > kMaxBytes || to_bytes[rank] > kMaxBytes) {
            refuse(ErrorKind::does_not_fit, "a part of an exchange has more than 1 GiB");
        }
        sent.push_back(source);
        received.push_back(target);
        source += from_bytes[rank];
        target += to_bytes[rank];
    }
    const auto own = static_cast<size_t>(group.rank);
    if (from_bytes[own] > 0) std::memcpy(received[own], sent[own], from_bytes[own]);
    for_each_pair(group, [&](int to_rank, int from_rank) {
        exchange(group, sent[static_cast<size_t>(to_rank)], from_bytes[to_rank], to_rank,
                 received[static_cast<size_t>(from_rank)], to_bytes[from_rank], from_rank, 0);
    });
}

// To one rank after another: a group may be a part of the world.
void broadcast(CollectiveGroup handle, void*, void* values, size_t bytes, int root) {
    Group& group = group_of(handle);
    if (group.rank != root) return receive_bytes(group, values, bytes, root);
    for (int rank = 0; rank < group.num_ranks; ++rank) {
        if (rank != root) send_bytes(group, values, bytes, rank);
    }
}

void send(CollectiveGroup handle, void*, const void* from, size_t bytes, int to_rank) {
    send_bytes(group_of(handle), from, bytes, to_rank);
}

void receive(CollectiveGroup handle, void*, void* to, size_t bytes, int from_rank) {
    receive_bytes(group_of(handle), to, bytes, from_rank);
}

uint64_t bytes_sent(CollectiveGroup handle) { return group_of(handle).bytes_sent; }

CollectivesLibrary look() { return library().info; }

}  // namespace
}  // namespace nvllm::mpi

NVLLM_COLLECTIVES_ENTRY() {
    using namespace nvllm::mpi;
    static const nvllm::CollectivesTable table{.name = "mpi",
                                               .look = look,
                                               .make_id = make_id,
                                               .join = join,
                                               .leave = leave,
                                               .all_reduce = all_reduce,
                                               .all_gather = all_gather,
                                               .all_to_all = all_to_all,
                                               .exchange = exchange_parts,
                                               .broadcast = broadcast,
                                               .send = send,
                                               .receive = receive,
                                               .bytes_sent = bytes_sent};
    return &table;
}
