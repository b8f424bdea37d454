// Keys of a sequence's full blocks, and the walk along them in the prefix index.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/sequence_blocks.h"

namespace nvllm {

// The tokens of one full block. REQUIRES: `tokens` reach to its end.
std::span<const int32_t> block_tokens(std::span<const int32_t> tokens, int32_t block_index,
                                      int32_t block_size);

// The extra bytes of one block's key; empty for most.
std::string_view block_extra(const CacheSequence& sequence, int32_t block_index);

// Full blocks of a prompt that can be taken from the cache: the last token is always computed,
// because its logits are needed. REQUIRES: there is a token.
int32_t num_reusable_blocks(std::span<const int32_t> tokens, int32_t block_size);

// Computes the keys of the first `num_blocks` blocks, unless they are known.
void extend_keys(const PrefixIndex& index, CacheSequence& sequence, std::span<const int32_t> tokens,
                 int32_t num_blocks);

// The node of block `block_index` after `parent`, or null. REQUIRES: the block's key is known.
PrefixNode* find_block(PrefixIndex& index, const PrefixNode* parent, const CacheSequence& sequence,
                       std::span<const int32_t> tokens, int32_t block_index);

}  // namespace nvllm
