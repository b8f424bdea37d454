// The written contract of operations between ranks: threads of this process (built in), NCCL
// through the CUDA module, MPI through a module of its own.
//
// A module that has them exports nvllm_collectives() in addition to, or instead of, nvllm_backend()
// (backend.h). Sums are in the order of the ranks at every message size: a result has the same bits
// on all ranks, in every run, and however the values are cut into messages.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "kernels/view.h"

namespace nvllm {

// Changes whenever older tables can no longer be used.
inline constexpr uint32_t kCollectivesVersion = 4;
// What a module exports: NVLLM_COLLECTIVES_ENTRY() { return &table; }
inline constexpr const char* kCollectivesEntry = "nvllm_collectives";
#define NVLLM_COLLECTIVES_ENTRY                       \
    extern "C" __attribute__((visibility("default"))) \
    const nvllm::CollectivesTable* nvllm_collectives

// The library behind a module, opened at run time.
struct CollectivesLibrary {
    std::string name;     // "NCCL"
    std::string version;  // as it says itself: "NCCL 2.28.3", "Open MPI v4.1.4"
    std::string file;     // that was opened, or is missing
    std::string fault;    // a sentence that says why it cannot be used; empty: it can
};

// Names a group. One rank makes it, and every rank joins with a copy of it.
struct GroupId {
    std::array<uint8_t, 128> bytes{};
};

// What one rank joins a group with.
struct GroupSetup {
    GroupId id;
    int rank = 0;
    int num_ranks = 1;
    // Of tables whose library numbers all ranks: the number there of each of the group, whose
    // messages no other group with another `tag` gets. Empty: the group is of all of them.
    std::vector<int> members = {};
    int tag = 0;
    // Of tables on devices:
    int device = 0;            // index of the rank's device
    size_t max_sum_bytes = 0;  // of one all_reduce; memory for it is reserved
};

using CollectiveGroup = struct OpaqueCollectiveGroup*;

// One rank calls the operations of a group one after another; all ranks call the same ones in the
// same order, but for send and receive. They throw Error: unavailable when another rank is gone.
//
// On host memory an operation is done on return and `stream` is ignored. On devices it is put into
// the stream in order and never waits for the host, so a graph can hold it.
struct CollectivesTable {
    // First, so that tables of other versions can be told apart.
    uint32_t version = kCollectivesVersion;
    uint32_t table_bytes = sizeof(CollectivesTable);
    const char* name = nullptr;              // "threads", "nccl", "mpi"
    bool on_device = false;                  // operations take device memory, not host memory
    CollectivesLibrary (*look)() = nullptr;  // never throws for what is missing

    GroupId (*make_id)() = nullptr;
    // Waits until all ranks have joined. Throws unavailable when the library is missing, bad_config
    // when the ranks are not those that the library has.
    CollectiveGroup (*join)(const GroupSetup& setup) = nullptr;
    // Other ranks that wait in an operation, or call one later, get an error.
    void (*leave)(CollectiveGroup group) = nullptr;

    // values[i] of every rank becomes the sum over ranks. f32, f16, bf16, and on host memory also
    // f64, i32, i64; 16-bit floats are summed in float32 and rounded once. Throws bad_data for
    // other types, and on devices does_not_fit for more than max_sum_bytes.
    void (*all_reduce)(CollectiveGroup group, void* stream, DType dtype, void* values,
                       int64_t count) = nullptr;
    // `bytes` of each rank, one after another in `to`, [ranks, bytes]. `from` may be the rank's own
    // row of `to`.
    void (*all_gather)(CollectiveGroup group, void* stream, const void* from, void* to,
                       size_t bytes) = nullptr;
    // Row r of `from` [ranks, bytes] goes to rank r, which has it in the sender's row of `to`.
    void (*all_to_all)(CollectiveGroup group, void* stream, const void* from, void* to,
                       size_t bytes) = nullptr;
    // The same with parts of any size: from_bytes[r] bytes for rank r lie one behind the other in
    // `from`, and to_bytes[r] of rank r in `to`. Both ends of a pair say the same size, at most
    // 1 GiB; sizes are in host memory.
    void (*exchange)(CollectiveGroup group, void* stream, const void* from,
                     const size_t* from_bytes, void* to, const size_t* to_bytes) = nullptr;
    // The values of rank `root`.
    void (*broadcast)(CollectiveGroup group, void* stream, void* values, size_t bytes,
                      int root) = nullptr;
    // Between two ranks: sends to a rank are received in their order, with the same number of
    // bytes. A send may wait for its receive.
    void (*send)(CollectiveGroup group, void* stream, const void* from, size_t bytes,
                 int to_rank) = nullptr;
    void (*receive)(CollectiveGroup group, void* stream, void* to, size_t bytes,
                    int from_rank) = nullptr;
    // What this rank's operations have sent to other ranks since it joined. Null: not counted.
    uint64_t (*bytes_sent)(CollectiveGroup group) = nullptr;
};

// The table of the module in a file; it stays open until the process ends. Throws unavailable when
// the file is no such module, of another version, or lacks a function, saying which.
const CollectivesTable& open_collectives(const std::string& path);

// One rank's membership in a group, and the operations on views, which are checked: contiguous, of
// the sizes that the table states.
class RankGroup {
  public:
    // Joins; waits for the other ranks. The table outlives it.
    RankGroup(const CollectivesTable& table, const GroupSetup& setup);
    ~RankGroup();
    RankGroup(const RankGroup&) = delete;
    RankGroup& operator=(const RankGroup&) = delete;

    int rank() const { return rank_; }
    int num_ranks() const { return num_ranks_; }

    void all_reduce(void* stream, const TensorView& values) const;
    // to: as many times `from` as there are ranks, of the same type.
    void all_gather(void* stream, const ConstTensorView& from, const TensorView& to) const;
    // Both [ranks, ...], of one shape and type.
    void all_to_all(void* stream, const ConstTensorView& from, const TensorView& to) const;
    // Sizes of one part a rank.
    void exchange(void* stream, const void* from, std::span<const size_t> from_bytes, void* to,
                  std::span<const size_t> to_bytes) const;
    void broadcast(void* stream, const TensorView& values, int root) const;
    void send(void* stream, const ConstTensorView& from, int to_rank) const;
    void receive(void* stream, const TensorView& to, int from_rank) const;

    // As the table has it; 0 where it counts none.
    uint64_t bytes_sent() const {
        return table_.bytes_sent == nullptr ? 0 : table_.bytes_sent(group_);
    }
    // Wall time in operations since it joined: on host memory that of copies and of waiting for
    // other ranks.
    std::chrono::nanoseconds time_spent() const { return time_spent_; }

  private:
    void check(const ConstTensorView& values) const;
    void check_rank(int rank) const;

    const CollectivesTable& table_;
    int rank_;
    int num_ranks_;
    CollectiveGroup group_;
    mutable std::chrono::nanoseconds time_spent_{};
};

// A stage's place in a pipeline of ranks, each of which hands hidden states to the next one.
struct PipelineLink {
    const RankGroup* ranks = nullptr;
    std::optional<int> previous = {};  // empty: the first stage
    std::optional<int> next = {};      // empty: the last stage
};

}  // namespace nvllm
