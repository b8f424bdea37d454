// The inputs of a block's keys and values in addition to the tokens: two sequences share a block
// only if all of them are equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cache/prefix/siphash.h"

namespace nvllm {

// An image or other input, whose placeholder tokens do not identify its content.
struct MediaKey {
    int32_t position = 0;  // of its first token
    Hash128 content;
};

struct CacheKeyExtras {
    std::string salt;     // clients with another salt must not detect cached blocks
    std::string adapter;  // its name and revision; empty: the model alone
    std::vector<MediaKey> media;
    int32_t rope_choice = 0;  // keys are rotated by other frequencies under another one
};

// The bytes of one block that has any. Later blocks hang on it through their parents' keys.
struct BlockExtra {
    int32_t block = 0;
    std::string bytes;
};

// In the order of blocks; different extras never give the same bytes. REQUIRES: no position is
// negative; block_size >= 1.
std::vector<BlockExtra> block_extras(const CacheKeyExtras& extras, int32_t block_size);

}  // namespace nvllm
