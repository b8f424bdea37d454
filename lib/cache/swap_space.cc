// The stacks of free host blocks.
#include "lib/cache/swap_space.h"

#include "kernels/error.h"

namespace nvllm {

SwapSpace::SwapSpace(std::span<const int32_t> group_sizes) {
    for (const int32_t size : group_sizes) {
        NVLLM_CHECK(size >= 0, "a number of host blocks is negative");
        Group& group = groups_.emplace_back();
        group.references.resize(static_cast<size_t>(size));
        for (HostBlockId block = size - 1; block >= 0; --block) group.free.push_back(block);
    }
}

HostBlockId SwapSpace::take(int32_t group) {
    Group& from = groups_[group];
    NVLLM_CHECK(!from.free.empty(), "host blocks were counted before they were taken");
    const HostBlockId block = from.free.back();
    from.free.pop_back();
    from.references[block] = 1;
    return block;
}

void SwapSpace::share(int32_t group, HostBlockId block) {
    int32_t& references = groups_[group].references[block];
    NVLLM_CHECK(references > 0, "host block " + std::to_string(block) + " is free");
    ++references;
}

void SwapSpace::free(int32_t group, HostBlockId block) {
    Group& to = groups_[group];
    NVLLM_CHECK(to.references[block] > 0,
                "host block " + std::to_string(block) + " is freed twice");
    if (--to.references[block] == 0) to.free.push_back(block);
}

void SwapSpace::check_integrity() const {
    for (const Group& group : groups_) {
        std::vector<bool> known;
        for (const int32_t references : group.references) known.push_back(references > 0);
        for (const HostBlockId block : group.free) {
            NVLLM_CHECK(!known[block], "host block " + std::to_string(block) + " is free twice");
            known[block] = true;
        }
        for (const bool one : known) NVLLM_CHECK(one, "a host block is lost");
    }
}

}  // namespace nvllm
