// Copies between host blocks and the disk tier, and how they ended.
#pragma once

#include <cstdint>

#include "lib/cache/prefix/siphash.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

// Bytes `offset` of segment `segment` on; see DiskStore.
struct DiskPlace {
    uint64_t segment = 0;
    uint64_t offset = 0;

    bool operator==(const DiskPlace&) const = default;
};

// One block, in the direction of the list that it is in.
struct DiskMove {
    uint64_t number = 0;  // consecutive among those of its direction
    int32_t group = 0;
    HostBlockId host_block = 0;
    DiskPlace place;
    uint64_t seed = 0;  // of the digests of its values: another one for another content
};

// Of a content of a group.
inline uint64_t digest_seed(const Hash128& key, int32_t group) {
    return key.low ^ (key.high * 3) ^ static_cast<uint64_t>(group);
}

struct DiskEvent {
    bool is_read = false;
    uint64_t number = 0;  // of the move
    bool succeeded = false;
};

}  // namespace nvllm
