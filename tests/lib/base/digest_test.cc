// Digests tell data that changed.
#include "lib/base/digest.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

using namespace nvllm;

TEST_CASE("FNV-1a is the published one") {
    CHECK(digest("", 0) == 0xcbf29ce484222325ull);
    CHECK(digest("a", 1) == 0xaf63dc4c8601ec8cull);
    CHECK(digest("foobar", 6) == 0x85944171f73967e8ull);
    CHECK(digest("bar", 3, digest("foo", 3)) == digest("foobar", 6));
}

TEST_CASE("one bit, two exchanged words, another length or another beginning give another digest") {
    for (const size_t bytes : {0, 1, 31, 32, 33, 100}) {
        std::vector<unsigned char> data(bytes);
        for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(3 * i);
        std::set<uint64_t> seen = {fast_digest(data.data(), bytes, 1)};
        size_t expected = 1;
        const auto add = [&](uint64_t sum) {
            seen.insert(sum);
            ++expected;
        };
        add(fast_digest(data.data(), bytes, 2));
        for (size_t bit = 0; bit < 8 * bytes; ++bit) {
            data[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
            add(fast_digest(data.data(), bytes, 1));
            data[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
        }
        if (bytes > 0) add(fast_digest(data.data(), bytes - 1, 1));
        if (bytes >= 32) {
            std::vector<unsigned char> exchanged = data;
            for (size_t i = 0; i < 8; ++i) std::swap(exchanged[i], exchanged[8 + i]);
            add(fast_digest(exchanged.data(), bytes, 1));
        }
        CHECK(seen.size() == expected);
    }
}
