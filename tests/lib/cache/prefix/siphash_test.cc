// SipHash against the vectors of its authors.
#include "lib/cache/prefix/siphash.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace nvllm {
namespace {

// The key of the authors' vectors: bytes 0, 1, ... 15.
constexpr HashKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::vector<std::byte> counting_bytes(size_t count) {
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(i));
    return bytes;
}

Hash128 hash_of(const HashKey& key, std::span<const std::byte> bytes) {
    SipHash128 hash(key);
    hash.add(bytes);
    return hash.finish();
}

TEST_CASE("SipHash-2-4-128 gives the published values") {
    CHECK(hash_of(kKey, counting_bytes(0)) == Hash128{0xe6a825ba047f81a3, 0x930255c71472f66d});
    CHECK(hash_of(kKey, counting_bytes(1)) == Hash128{0x44af996bd8c187da, 0x45fc229b11597634});
    CHECK(hash_of(kKey, counting_bytes(8)) == Hash128{0x61f55862baa9623b, 0xb49714f364e2830f});
    CHECK(hash_of(kKey, counting_bytes(61)) == Hash128{0xfe1d836a9a009776, 0x7a0f6793591ca9cc});
}

TEST_CASE("the borders of the pieces do not matter") {
    const std::vector<std::byte> bytes = counting_bytes(61);
    for (size_t first = 0; first <= bytes.size(); ++first) {
        SipHash128 hash(kKey);
        hash.add(std::span(bytes).first(first));
        hash.add(std::span(bytes).subspan(first));
        CHECK(hash.finish() == hash_of(kKey, bytes));
    }
}

TEST_CASE("the fast variant hears every byte and depends on the key") {
    const auto fast = [](const HashKey& key, std::span<const std::byte> bytes) {
        FastSipHash128 hash(key);
        hash.add(bytes);
        return hash.finish();
    };
    std::vector<std::byte> bytes = counting_bytes(61);
    const Hash128 whole = fast(kKey, bytes);
    CHECK_FALSE(whole == hash_of(kKey, bytes));
    CHECK_FALSE(whole == fast({1, 2}, bytes));
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] ^= std::byte{1};
        CHECK_FALSE(fast(kKey, bytes) == whole);
        bytes[i] ^= std::byte{1};
    }
}

TEST_CASE("another key gives another hash") {
    CHECK_FALSE(hash_of(kKey, counting_bytes(8)) == hash_of({1, 2}, counting_bytes(8)));
    CHECK_FALSE(HashKey::random().low == HashKey::random().low);
}

}  // namespace
}  // namespace nvllm
