// Which ranks are a group, and under which number.
#include "lib/parallel/rank_groups.h"

#include "kernels/host/thread_collectives.h"

namespace nvllm {
namespace {

int num_groups_of_replica(const ParallelSizes& sizes) { return sizes.pipeline + sizes.tensor; }

int num_groups(const ParallelSizes& sizes, int32_t replicas) {
    return replicas * num_groups_of_replica(sizes) + (replicas > 1 ? sizes.pipeline : 0);
}

// A group's `number` is its place among the ids.
GroupSetup group_setup(const RankSetup& setup, int number, int rank, std::vector<int> members) {
    GroupSetup group;
    group.id.bytes = setup.group_ids[static_cast<size_t>(number)];
    group.rank = rank;
    group.num_ranks = static_cast<int>(members.size());
    group.members = std::move(members);
    group.tag = number;
    return group;
}

}  // namespace

const CollectivesTable& collectives_of(const RankSetup& setup) {
    return setup.collectives.empty() ? thread_collectives() : open_collectives(setup.collectives);
}

std::vector<GroupIdBytes> make_group_ids(const CollectivesTable& table, const ParallelSizes& sizes,
                                         int32_t replicas) {
    std::vector<GroupIdBytes> ids;
    if (sizes.num_ranks() * replicas == 1) return ids;
    for (int group = 0; group < num_groups(sizes, replicas); ++group)
        ids.push_back(table.make_id().bytes);
    return ids;
}

RankGroups::RankGroups(const RankSetup& setup, int device, size_t max_sum_bytes) {
    if (setup.is_alone()) return;
    const CollectivesTable& table = collectives_of(setup);
    const ParallelSizes& sizes = setup.sizes;
    const int32_t stage = setup.stage();
    const int32_t tensor_rank = setup.tensor_rank();
    const int32_t replicas = setup.sharing.count;
    NVLLM_CHECK(std::ssize(setup.group_ids) == num_groups(sizes, replicas), "each group has an id");
    const int first_number = setup.sharing.index * num_groups_of_replica(sizes);
    const auto join = [&](int number, int rank, std::vector<int> members) {
        GroupSetup group = group_setup(setup, number, rank, std::move(members));
        group.device = device;
        group.max_sum_bytes = max_sum_bytes;
        return std::make_unique<RankGroup>(table, group);
    };
    if (sizes.tensor > 1) {
        std::vector<int> members;
        for (int32_t other = 0; other < sizes.tensor; ++other) {
            members.push_back(setup.started_as(sizes.rank_at(stage, other)));
        }
        tensor_ = join(first_number + stage, tensor_rank, std::move(members));
    }
    if (replicas > 1) {
        std::vector<int> members;
        for (int32_t replica = 0; replica < replicas; ++replica) {
            for (int32_t other = 0; other < sizes.tensor; ++other) {
                members.push_back(replica * sizes.num_ranks() + sizes.rank_at(stage, other));
            }
        }
        experts_ = join(replicas * num_groups_of_replica(sizes) + stage, setup.expert_rank(),
                        std::move(members));
    }
    if (sizes.pipeline == 1) return;
    std::vector<int> members;
    for (int32_t other = 0; other < sizes.pipeline; ++other) {
        members.push_back(setup.started_as(sizes.rank_at(other, tensor_rank)));
    }
    stages_ = join(first_number + sizes.pipeline + tensor_rank, stage, std::move(members));
    link_.emplace();
    link_->ranks = stages_.get();
    if (stage > 0) link_->previous = stage - 1;
    if (stage + 1 < sizes.pipeline) link_->next = stage + 1;
}

// Of two ranks: a row of each, and two in float32 of half a sum; more ranks take less
// (kernels/cuda/runtime/nccl.cc).
uint64_t RankGroups::device_bytes(uint64_t max_sum_bytes) {
    constexpr uint64_t kPadding = 1 << 16;
    return 3 * max_sum_bytes + kPadding;
}

void RankGroups::abandon(const RankSetup& setup) {
    if (!setup.collectives.empty()) return;
    for (const GroupIdBytes& id : setup.group_ids) abandon_thread_group(GroupId{id});
}

uint64_t RankGroups::bytes_sent() const {
    const auto sent = [](const std::unique_ptr<RankGroup>& group) {
        return group ? group->bytes_sent() : 0;
    };
    return sent(tensor_) + sent(experts_) + sent(stages_);
}

std::chrono::nanoseconds RankGroups::time_spent() const {
    std::chrono::nanoseconds sum{};
    for (const RankGroup* group : {tensor_.get(), experts_.get(), stages_.get()}) {
        if (group != nullptr) sum += group->time_spent();
    }
    return sum;
}

}  // namespace nvllm
