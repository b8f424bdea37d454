// Salt, adapter, media and the choice of RoPE as bytes: each part is marked and says its length.
#include "lib/cache/cache_key_extras.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {
namespace {

void append_number(std::string& bytes, uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
        bytes.push_back(static_cast<char>(static_cast<unsigned char>(number >> shift)));
    }
}

void append_text(std::string& bytes, char mark, const std::string& text) {
    if (text.empty()) return;
    bytes.push_back(mark);
    append_number(bytes, text.size());
    bytes += text;
}

}  // namespace

std::vector<BlockExtra> block_extras(const CacheKeyExtras& extras, int32_t block_size) {
    std::vector<BlockExtra> blocks;
    BlockExtra first;
    append_text(first.bytes, 's', extras.salt);
    append_text(first.bytes, 'a', extras.adapter);
    if (extras.rope_choice != 0) {
        first.bytes.push_back('r');
        append_number(first.bytes, static_cast<uint64_t>(extras.rope_choice));
    }
    if (!first.bytes.empty()) blocks.push_back(std::move(first));
    std::vector<MediaKey> media = extras.media;
    std::ranges::stable_sort(media, {}, &MediaKey::position);
    for (const MediaKey& key : media) {
        NVLLM_CHECK(key.position >= 0, "media stand at positions from 0");
        const int32_t block = key.position / block_size;
        if (blocks.empty() || blocks.back().block != block) blocks.push_back({block, {}});
        std::string& bytes = blocks.back().bytes;
        bytes.push_back('m');
        append_number(bytes, static_cast<uint64_t>(key.position));
        append_number(bytes, key.content.low);
        append_number(bytes, key.content.high);
    }
    return blocks;
}

}  // namespace nvllm
