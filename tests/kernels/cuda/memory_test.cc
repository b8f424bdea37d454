// Loads, stores, asynchronous copies and atomics.
#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/cuda/schedules.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace {

// Aligned as device memory is.
struct alignas(16) Piece {
    uint32_t words[4];
};

struct Words {
    explicit Words(int count) : pieces(static_cast<size_t>(count + 3) / 4) {}
    uint32_t* data() { return pieces.front().words; }
    uint32_t& operator[](int i) { return pieces[static_cast<size_t>(i / 4)].words[i % 4]; }
    std::vector<Piece> pieces;
};

Words numbered(int count) {
    Words words(count);
    for (int i = 0; i < count; ++i) words[i] = 0x01010101u * static_cast<uint32_t>(i % 200 + 1);
    return words;
}

}  // namespace

TEST_CASE("an asynchronous copy fills with zeros what it does not read") {
    under_all_schedules([] {
        Words in = numbered(64 * 4);
        Words out(64 * 4);
        std::vector<int> bytes(64);
        for (int i = 0; i < 64; ++i) bytes[static_cast<size_t>(i)] = i % 17;
        wrappers::copy_asynchronously(in.data(), bytes.data(), out.data(), 64);
        for (int byte = 0; byte < 64 * 16; ++byte) {
            const uint32_t shift = 8 * (static_cast<uint32_t>(byte) % 4);
            const bool read = byte % 16 < bytes[static_cast<size_t>(byte / 16)];
            CHECK((out[byte / 4] >> shift & 0xff) == (read ? in[byte / 4] >> shift & 0xff : 0));
        }
    });
}

TEST_CASE("copies in two stages keep their order") {
    under_all_schedules([] {
        for (const int stages : {1, 2, 7}) {
            Words in = numbered(stages * 32);
            Words out(stages * 32);
            wrappers::copy_in_stages(in.data(), out.data(), stages);
            for (int i = 0; i < stages * 32; ++i) CHECK(out[i] == in[i] + 1);
        }
    });
}

TEST_CASE("loads and stores of all widths") {
    Words in = numbered(12);
    Words out(12);
    wrappers::loads_and_stores(in.data(), out.data());
    for (int i = 0; i < 12; ++i) CHECK(out[i] == in[i]);
}

TEST_CASE("atomics count every thread once") {
    under_all_schedules([] {
        std::vector<uint32_t> counters{0, 0, 0xffffffffu, 0, 0, 0, 0};
        wrappers::atomic_counters(counters.data(), 3);
        CHECK(counters[0] == 192);
        CHECK(counters[1] == 191);
        CHECK(counters[2] == 0);
        CHECK(counters[3] == 0xffffffffu);
        CHECK(counters[4] >= 1);
        CHECK(counters[4] <= 192);
        CHECK(counters[5] == 384);
        CHECK(std::bit_cast<float>(counters[6]) == 96.0f);
    });
}
