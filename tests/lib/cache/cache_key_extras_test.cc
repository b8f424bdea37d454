// Extras as bytes of blocks: in which block they stand, and that different ones never meet.
#include "lib/cache/cache_key_extras.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <string>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {
namespace {

CacheKeyExtras extras(std::string salt, std::string adapter, std::vector<MediaKey> media = {}) {
    return {.salt = std::move(salt), .adapter = std::move(adapter), .media = std::move(media)};
}

TEST_CASE("no extras are no bytes; salt and adapter belong to the first block") {
    CHECK(block_extras({}, 4).empty());
    const auto blocks = block_extras(extras("salt", "adapter"), 4);
    REQUIRE(blocks.size() == 1);
    CHECK(blocks[0].block == 0);
}

TEST_CASE("different salts and adapters never give the same bytes") {
    std::set<std::string> seen;
    for (const std::string salt : {"", "a", "b", "ab", "sa", "s"}) {
        for (const std::string adapter : {"", "a", "b", "ab", "sa", "s"}) {
            const auto blocks = block_extras(extras(salt, adapter), 4);
            CHECK(seen.insert(blocks.empty() ? "" : blocks[0].bytes).second);
        }
    }
}

TEST_CASE("a choice of RoPE other than the first belongs to the first block") {
    std::set<std::string> seen = {""};
    for (const std::string salt : {"", "s", "r"}) {
        for (const int32_t choice : {0, 1, 2}) {
            CacheKeyExtras wanted = extras(salt, "");
            wanted.rope_choice = choice;
            const auto blocks = block_extras(wanted, 4);
            if (salt.empty() && choice == 0) {
                CHECK(blocks.empty());
            } else {
                CHECK(seen.insert(blocks.at(0).bytes).second);
            }
        }
    }
}

TEST_CASE("a medium belongs to the block where it begins, in the order of positions") {
    const auto blocks = block_extras(extras("s", "", {{9, {1, 2}}, {1, {3, 4}}, {10, {5, 6}}}), 4);
    REQUIRE(blocks.size() == 2);
    CHECK(blocks[0].block == 0);
    CHECK(blocks[1].block == 2);
    const auto other = block_extras(extras("s", "", {{9, {1, 2}}, {1, {3, 4}}, {10, {5, 7}}}), 4);
    CHECK(other[0].bytes == blocks[0].bytes);
    CHECK(other[1].bytes != blocks[1].bytes);
    CHECK_THROWS_AS(block_extras(extras("", "", {{-1, {}}}), 4), Error);
}

TEST_CASE("a cached prefix is found only under the same extras, as far as they are the same") {
    CacheManager cache({.block_size = 4, .groups = {{16, 0}}});
    std::vector<int32_t> tokens(13);
    std::iota(tokens.begin(), tokens.end(), 0);
    const auto matched = [&](const CacheKeyExtras& extras) {
        SequenceBlocks probe(cache, extras);
        return cache.match(probe, tokens).num_tokens;
    };
    const CacheKeyExtras first = extras("salt", "poet", {{6, {1, 1}}});
    SequenceBlocks sequence(cache, first, 7);
    CHECK(sequence.owner() == 7);
    REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), 13, 64, 0));
    cache.commit(sequence, tokens, 13);
    CHECK(matched(first) == 12);
    CHECK(matched(extras("salt", "poet", {{6, {1, 2}}})) == 4);
    CHECK(matched(extras("salt", "poet", {{7, {1, 1}}})) == 4);
    CHECK(matched(extras("salt", "poet")) == 4);
    CHECK(matched(extras("salt", "clerk", {{6, {1, 1}}})) == 0);
    CHECK(matched(extras("", "poet", {{6, {1, 1}}})) == 0);
}

}  // namespace
}  // namespace nvllm
