// Hints of waiting sequences, and how they grow with the cache.
#include "lib/cache/prefix/reuse_hints.h"

#include <doctest/doctest.h>

#include "tests/lib/cache/cache_parts_fixture.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

int32_t num_expected(const PartsFixture& parts) {
    int32_t total = 0;
    for (const PrefixNode* node : parts.index.nodes()) total += node->num_expected;
    return total;
}

TEST_CASE("a hint counts the cached blocks of its tokens and grows when the next one is cached") {
    PartsFixture parts({{16, 0}}, "cost");
    CacheSequence first = parts.sequence();
    parts.run(first, tokens_from(0, 4));
    CacheSequence waiting = parts.sequence();
    parts.hints.set(waiting, tokens_from(0, 13));
    CHECK(waiting.hint.num_nodes == 1);
    CHECK(num_expected(parts) == 1);
    CacheSequence second = parts.sequence();
    parts.run(second, tokens_from(0, 12));
    CHECK(waiting.hint.num_nodes == 3);
    CHECK(num_expected(parts) == 3);
    CacheSequence* const all[] = {&first, &second, &waiting};
    parts.hints.check_integrity(all);
    parts.hints.clear(waiting);
    CHECK(num_expected(parts) == 0);
    parts.free(first);
    parts.free(second);
}

TEST_CASE("a hint follows a state that moves in memory") {
    PartsFixture parts({{16, 0}}, "cost");
    CacheSequence waiting = parts.sequence();
    parts.hints.set(waiting, tokens_from(0, 9));
    CacheSequence moved = waiting;
    parts.hints.replace(waiting, moved);
    CacheSequence other = parts.sequence();
    parts.run(other, tokens_from(0, 8));
    CHECK(moved.hint.num_nodes == 2);
    CHECK(waiting.hint.num_nodes == 0);
    parts.hints.clear(moved);
    parts.free(other);
}

TEST_CASE("a policy without hints ignores them") {
    PartsFixture parts({{16, 0}}, "lru");
    CacheSequence first = parts.sequence();
    parts.run(first, tokens_from(0, 8));
    CacheSequence waiting = parts.sequence();
    parts.hints.set(waiting, tokens_from(0, 8));
    CHECK(waiting.hint.limit == 0);
    CHECK(num_expected(parts) == 0);
    parts.free(first);
}

}  // namespace
}  // namespace nvllm
