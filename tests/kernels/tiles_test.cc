// Tests of the emulated tiles, on which the kernels that multiply by tiles run in tests.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <vector>

#include "emulated_tiles.h"
#include "kernels/cpu/dispatch/isa.h"
#include "kernels/cpu/simd/tiles_amx.h"
#include "testing.h"

namespace cpu = nvllm::cpu;

namespace {

using Words = uint32_t[16][16];

// Three matrices of any shape a tile can have, in tiles 0 (sums), 1 and 2.
class Operands {
  public:
    explicit Operands(testing::Random& random) : random_(random) {}

    // Bytes of any value.
    void fill_with_bytes() {
        fill([&] { return static_cast<uint32_t>(random_.next()); });
    }
    // Pairs of bfloat16 with exponents from `least` on.
    void fill_with_pairs(uint32_t least, int64_t exponents) {
        fill([&] {
            const auto exponent = [&] {
                return least + static_cast<uint32_t>(random_.below(exponents));
            };
            const auto signs_and_digits = static_cast<uint32_t>(random_.next()) & 0x807f807fu;
            return signs_and_digits | exponent() << 23 | exponent() << 7;
        });
    }
    template <class Tiles>
    void load() const {
        Tiles::configure(shapes_);
        Tiles::template load<0>(words_[0], sizeof(words_[0][0]));
        Tiles::template load<1>(words_[1], sizeof(words_[0][0]));
        Tiles::template load<2>(words_[2], sizeof(words_[0][0]));
    }

  private:
    template <typename Word>
    void fill(Word word) {
        const auto size = [&] { return static_cast<uint8_t>(1 + random_.below(16)); };
        const uint8_t rows = size(), depth = size(), columns = size();
        const auto bytes = [](uint8_t words) { return static_cast<uint8_t>(4 * words); };
        shapes_.of[0] = {rows, bytes(columns)};
        shapes_.of[1] = {rows, bytes(depth)};
        shapes_.of[2] = {depth, bytes(columns)};
        for (Words& matrix : words_) {
            for (auto& row : matrix) std::generate(std::begin(row), std::end(row), word);
        }
    }

    testing::Random& random_;
    cpu::TileShapes shapes_{};
    Words words_[3];
};

template <class Tiles>
void add_sums(std::vector<uint32_t>& results) {
    Words sums = {};
    Tiles::template store<0>(sums, sizeof(sums[0]));
    for (const auto& row : sums) results.insert(results.end(), std::begin(row), std::end(row));
}

// Every kind of tile product, onto what was there and onto zeros.
template <class Tiles>
std::vector<uint32_t> tile_products() {
    std::vector<uint32_t> results;
    testing::Random random(11);
    Operands factors(random);
    for (int round = 0; round < 300; ++round) {
        switch (round % 3) {
            case 0:
                factors.fill_with_pairs(60, 8);
                break;  // sums that are subnormal
            case 1:
                factors.fill_with_pairs(120, 8);
                break;  // such as cancel
            case 2:
                factors.fill_with_pairs(1, 180);
                break;
        }
        factors.load<Tiles>();
        Tiles::template multiply<cpu::TileProduct::bfloat16, 0, 1, 2>();
        add_sums<Tiles>(results);
        Tiles::template zero<0>();
        Tiles::template multiply<cpu::TileProduct::bfloat16, 0, 1, 2>();
        add_sums<Tiles>(results);

        factors.fill_with_bytes();
        factors.load<Tiles>();
        Tiles::template multiply<cpu::TileProduct::unsigned_by_signed, 0, 1, 2>();
        add_sums<Tiles>(results);
        Tiles::template multiply<cpu::TileProduct::signed_by_signed, 0, 1, 2>();
        add_sums<Tiles>(results);
    }
    Tiles::release();
    return results;
}

}  // namespace

TEST_CASE("emulated tiles give the bits of the processor's") {
    const std::vector<uint32_t> emulated = tile_products<testing::EmulatedTiles>();
    CHECK(std::ranges::count_if(emulated, [](uint32_t bits) { return bits != 0; }) > 80'000);
#if defined(__x86_64__)
    if (cpu::isa_supported(cpu::Isa::amx)) {
        CHECK(emulated == tile_products<cpu::AmxInstructions>());
        return;
    }
#endif
    std::puts("no AMX here: emulated tiles were compared with nothing");
}
