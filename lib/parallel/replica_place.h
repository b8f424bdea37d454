// One of several replicas of a model, each of which takes requests of its own: plain data.
#pragma once

#include <cstdint>

namespace nvllm {

struct ReplicaPlace {
    int32_t index = 0;
    int32_t count = 1;

    bool is_alone() const { return count == 1; }
    bool operator==(const ReplicaPlace&) const = default;
};

}  // namespace nvllm
