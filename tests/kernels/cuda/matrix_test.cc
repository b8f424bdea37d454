// Tensor-core instructions, against the places that the PTX manual names for each element of each
// lane.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/types.h"
#include "tests/kernels/cuda/schedules.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace {

struct Place {
    int row;
    int column;
};

// Element i of a lane's part, as the manual counts them: groupID = lane >> 2, threadID_in_group =
// lane % 4.
Place place_in_a16(int lane, int i) {
    const bool upper = (i >= 0 && i < 2) || (i >= 4 && i < 6);
    return {(lane >> 2) + (upper ? 0 : 8), (lane % 4) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
Place place_in_b16(int lane, int i) {
    return {(lane % 4) * 2 + (i & 1) + (i < 2 ? 0 : 8), lane >> 2};
}
Place place_in_a8(int lane, int i) {
    const bool upper = (i >= 0 && i < 4) || (i >= 8 && i < 12);
    return {(lane >> 2) + (upper ? 0 : 8), (lane % 4) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
}
Place place_in_b8(int lane, int i) {
    return {(lane % 4) * 4 + (i & 3) + (i < 4 ? 0 : 16), lane >> 2};
}
Place place_in_d(int lane, int i) {
    return {(lane >> 2) + (i < 2 ? 0 : 8), (lane % 4) * 2 + (i & 1)};
}

// Small whole numbers that every format holds, different along rows and columns.
int a_value(Place at) { return (at.row * 5 + at.column * 3) % 9 - 4; }
int b_value(Place at) { return (at.row * 2 + at.column * 7) % 7 - 3; }
int start_value(Place at) { return at.row * 8 + at.column; }

int product(Place at, int depth) {
    int sum = start_value(at);
    for (int k = 0; k < depth; ++k) sum += a_value({at.row, k}) * b_value({k, at.column});
    return sum;
}

// A small whole number as the bits of a type.
uint32_t bits_bf16(int value) { return nvllm::BFloat16(static_cast<float>(value)).bits; }
uint32_t bits_f16(int value) { return nvllm::Float16(static_cast<float>(value)).bits; }
uint32_t bits_i8(int value) { return static_cast<uint8_t>(value); }
uint32_t bits_e4m3(int value) {
    const uint32_t magnitudes[] = {0x00, 0x38, 0x40, 0x44, 0x48};  // 0, 1, 2, 3, 4
    return magnitudes[std::abs(value)] | (value < 0 ? 0x80u : 0u);
}

using Bits = uint32_t (*)(int);
using PlaceOf = Place (*)(int lane, int i);

// `elements` values of each lane, packed into registers with the first in the lowest bits.
std::vector<uint32_t> pack(int elements, int width_bits, PlaceOf place, int (*value)(Place),
                           Bits bits) {
    const int registers = elements * width_bits / 32;
    std::vector<uint32_t> packed(static_cast<size_t>(32 * registers));
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < elements; ++i) {
            const int at = i * width_bits;
            packed[static_cast<size_t>(lane * registers + at / 32)] |= bits(value(place(lane, i)))
                                                                       << at % 32;
        }
    }
    return packed;
}

template <typename Sum>
void check_product(int depth, Bits bits, void (*multiply)(Sum*, const uint32_t*, const uint32_t*)) {
    const bool wide = depth == 16;
    const auto a =
        wide ? pack(8, 16, place_in_a16, a_value, bits) : pack(16, 8, place_in_a8, a_value, bits);
    const auto b =
        wide ? pack(4, 16, place_in_b16, b_value, bits) : pack(8, 8, place_in_b8, b_value, bits);
    under_all_schedules([&] {
        std::vector<Sum> d(128);
        for (int i = 0; i < 128; ++i)
            d[static_cast<size_t>(i)] = static_cast<Sum>(start_value(place_in_d(i / 4, i % 4)));
        multiply(d.data(), a.data(), b.data());
        for (int i = 0; i < 128; ++i) {
            CAPTURE(i);
            CHECK(d[static_cast<size_t>(i)] ==
                  static_cast<Sum>(product(place_in_d(i / 4, i % 4), depth)));
        }
    });
}

// Row `row` of 32, element `column` of 8.
uint16_t tile_value(int row, int column) { return static_cast<uint16_t>(row * 256 + column + 1); }

std::vector<uint16_t> tile() {
    std::vector<uint16_t> values;
    for (int i = 0; i < 256; ++i) values.push_back(tile_value(i / 8, i % 8));
    return values;
}

void check_load(wrappers::MatrixLoad load, int matrices, bool transposed) {
    under_all_schedules([&] {
        const auto values = tile();
        std::vector<uint32_t> out(128, 1);
        wrappers::load_matrices(load, values.data(), out.data());
        for (int lane = 0; lane < 32; ++lane) {
            for (int matrix = 0; matrix < matrices; ++matrix) {
                CAPTURE(lane);
                CAPTURE(matrix);
                const int first = lane * 2 % 8;
                const int down = lane / 4;
                const uint32_t low = transposed ? tile_value(8 * matrix + first, down)
                                                : tile_value(8 * matrix + down, first);
                const uint32_t high = transposed ? tile_value(8 * matrix + first + 1, down)
                                                 : tile_value(8 * matrix + down, first + 1);
                CHECK(out[static_cast<size_t>(lane * 4 + matrix)] == (low | high << 16));
            }
        }
    });
}

}  // namespace

TEST_CASE("m16n8k16 products of bfloat16 and half") {
    check_product<float>(16, bits_bf16, wrappers::mma_bf16);
    check_product<float>(16, bits_f16, wrappers::mma_f16);
}

TEST_CASE("m16n8k32 products of e4m3 and int8") {
    check_product<float>(32, bits_e4m3, wrappers::mma_e4m3);
    check_product<int>(32, bits_i8, wrappers::mma_i8);
}

TEST_CASE("ldmatrix hands out rows, and columns when transposed") {
    check_load(wrappers::MatrixLoad::x4, 4, false);
    check_load(wrappers::MatrixLoad::x4_transposed, 4, true);
    check_load(wrappers::MatrixLoad::x2, 2, false);
    check_load(wrappers::MatrixLoad::x2_transposed, 2, true);
}

TEST_CASE("stmatrix puts registers where ldmatrix finds them") {
    under_all_schedules([] {
        std::vector<uint32_t> registers(128);
        for (int lane = 0; lane < 32; ++lane) {
            for (int matrix = 0; matrix < 4; ++matrix) {
                const int row = 8 * matrix + lane / 4;
                registers[static_cast<size_t>(lane * 4 + matrix)] =
                    static_cast<uint32_t>(tile_value(row, lane * 2 % 8)) |
                    static_cast<uint32_t>(tile_value(row, lane * 2 % 8 + 1)) << 16;
            }
        }
        std::vector<uint16_t> rows(256);
        wrappers::store_matrices(registers.data(), rows.data());
        CHECK(rows == tile());
    });
}
