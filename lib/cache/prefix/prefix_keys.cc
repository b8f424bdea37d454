// Tokens, extra bytes and keys by block.
#include "lib/cache/prefix/prefix_keys.h"

namespace nvllm {

std::span<const int32_t> block_tokens(std::span<const int32_t> tokens, int32_t block_index,
                                      int32_t block_size) {
    return tokens.subspan(static_cast<size_t>(block_index) * block_size, block_size);
}

std::string_view block_extra(const CacheSequence& sequence, int32_t block_index) {
    for (const BlockExtra& extra : sequence.extras) {
        if (extra.block == block_index) return extra.bytes;
        if (extra.block > block_index) break;
    }
    return {};
}

int32_t num_reusable_blocks(std::span<const int32_t> tokens, int32_t block_size) {
    return static_cast<int32_t>(tokens.size() - 1) / block_size;
}

void extend_keys(const PrefixIndex& index, CacheSequence& sequence, std::span<const int32_t> tokens,
                 int32_t num_blocks) {
    while (static_cast<int32_t>(sequence.keys.size()) < num_blocks) {
        const int32_t block = static_cast<int32_t>(sequence.keys.size());
        const BlockKey parent = block == 0 ? BlockKey{} : sequence.keys.back();
        sequence.keys.push_back(index.key(parent, block_tokens(tokens, block, index.block_size()),
                                          block_extra(sequence, block)));
    }
}

PrefixNode* find_block(PrefixIndex& index, const PrefixNode* parent, const CacheSequence& sequence,
                       std::span<const int32_t> tokens, int32_t block_index) {
    return index.find(parent, sequence.keys[block_index],
                      block_tokens(tokens, block_index, index.block_size()),
                      block_extra(sequence, block_index));
}

}  // namespace nvllm
