// Opens and checks modules that have collectives, and checks the views of operations.
#include "kernels/collectives.h"

#include "kernels/error.h"
#include "kernels/module_file.h"

namespace nvllm {
namespace {

size_t bytes_of(const ConstTensorView& view) {
    return static_cast<size_t>(view.numel()) * dtype_bytes(view.dtype);
}

// Adds the time of its scope.
class Spending {
  public:
    explicit Spending(std::chrono::nanoseconds& time) : time_(time) {}
    ~Spending() { time_ += std::chrono::steady_clock::now() - begin_; }
    Spending(const Spending&) = delete;
    Spending& operator=(const Spending&) = delete;

  private:
    std::chrono::nanoseconds& time_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

const CollectivesTable& open_collectives(const std::string& path) {
    const auto& table =
        module_table<CollectivesTable>(path, kCollectivesEntry, kCollectivesVersion);
    const auto require = [&path](const char* name, auto* function) {
        if (function == nullptr) refuse_module(path, std::string("the module lacks ") + name);
    };
    require("look", table.look);
    require("make_id", table.make_id);
    require("join", table.join);
    require("leave", table.leave);
    require("all_reduce", table.all_reduce);
    require("all_gather", table.all_gather);
    require("all_to_all", table.all_to_all);
    require("exchange", table.exchange);
    require("broadcast", table.broadcast);
    require("send", table.send);
    require("receive", table.receive);
    return table;
}

RankGroup::RankGroup(const CollectivesTable& table, const GroupSetup& setup)
    : table_(table), rank_(setup.rank), num_ranks_(setup.num_ranks) {
    NVLLM_CHECK(rank_ >= 0 && rank_ < num_ranks_, "a rank is one of the group's");
    group_ = table.join(setup);
}

RankGroup::~RankGroup() { table_.leave(group_); }

void RankGroup::check(const ConstTensorView& values) const {
    NVLLM_CHECK(values.contiguous(), "ranks exchange contiguous values");
    NVLLM_CHECK((values.device.kind != DeviceKind::cpu) == table_.on_device,
                "values are in the memory that the collectives take");
}

void RankGroup::check_rank(int rank) const {
    NVLLM_CHECK(rank >= 0 && rank < num_ranks_, "the rank is not one of the group's");
}

void RankGroup::all_reduce(void* stream, const TensorView& values) const {
    check(values);
    const Spending spending(time_spent_);
    table_.all_reduce(group_, stream, values.dtype, values.data, values.numel());
}

void RankGroup::all_gather(void* stream, const ConstTensorView& from, const TensorView& to) const {
    check(from);
    check(to);
    NVLLM_CHECK(from.dtype == to.dtype && from.numel() * num_ranks_ == to.numel(),
                "all_gather gives the values of every rank");
    const Spending spending(time_spent_);
    table_.all_gather(group_, stream, from.data, to.data, bytes_of(from));
}

void RankGroup::all_to_all(void* stream, const ConstTensorView& from, const TensorView& to) const {
    check(from);
    check(to);
    NVLLM_CHECK(from.dtype == to.dtype && from.numel() == to.numel() && from.rank > 0 &&
                    from.dim(0) == num_ranks_ && to.dim(0) == num_ranks_,
                "all_to_all takes and gives one row for each rank");
    const Spending spending(time_spent_);
    table_.all_to_all(group_, stream, from.data, to.data,
                      bytes_of(from) / static_cast<size_t>(num_ranks_));
}

void RankGroup::exchange(void* stream, const void* from, std::span<const size_t> from_bytes,
                         void* to, std::span<const size_t> to_bytes) const {
    NVLLM_CHECK(std::ssize(from_bytes) == num_ranks_ && std::ssize(to_bytes) == num_ranks_,
                "exchange takes and gives a part for each rank");
    NVLLM_CHECK(from_bytes[static_cast<size_t>(rank_)] == to_bytes[static_cast<size_t>(rank_)],
                "what a rank keeps is what it gets of itself");
    const Spending spending(time_spent_);
    table_.exchange(group_, stream, from, from_bytes.data(), to, to_bytes.data());
}

void RankGroup::broadcast(void* stream, const TensorView& values, int root) const {
    check(values);
    check_rank(root);
    const Spending spending(time_spent_);
    table_.broadcast(group_, stream, values.data, bytes_of(values), root);
}

void RankGroup::send(void* stream, const ConstTensorView& from, int to_rank) const {
    check(from);
    check_rank(to_rank);
    NVLLM_CHECK(to_rank != rank_, "a rank sends to others");
    const Spending spending(time_spent_);
    table_.send(group_, stream, from.data, bytes_of(from), to_rank);
}

void RankGroup::receive(void* stream, const TensorView& to, int from_rank) const {
    check(to);
    check_rank(from_rank);
    NVLLM_CHECK(from_rank != rank_, "a rank receives from others");
    const Spending spending(time_spent_);
    table_.receive(group_, stream, to.data, bytes_of(to), from_rank);
}

}  // namespace nvllm
