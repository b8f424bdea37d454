// Tensor-core instructions, against the places that the PTX manual names for each element of each
// lane.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
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
void check_matmul(int depth, Bits bits, void (*multiply)(Sum*, const uint32_t*, const uint32_t*)) {
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

// The two places, in order, that row `row` keeps of four columns: all six ways occur.
std::pair<int, int> kept_places(int row, int four) {
    constexpr std::pair<int, int> kWays[] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    return kWays[(row + 5 * four) % 6];
}

// Places in the lanes whose turn it is, as the manual's figure of m16n8k32 has them: a row's 16
// columns are 16 bits; what the other lanes have is not looked at.
std::vector<uint32_t> sparse_places(int pair) {
    std::vector<uint32_t> places(32, 0xffffffffu);
    for (int row = 0; row < 16; ++row) {
        for (int half = 0; half < 2; ++half) {
            uint32_t bits = 0;
            for (int i = 0; i < 4; ++i) {
                const auto [first, second] = kept_places(row, 4 * half + i);
                bits |= static_cast<uint32_t>(first | second << 2) << (4 * i);
            }
            uint32_t& word = places[static_cast<size_t>(row % 8 * 4 + 2 * pair + half)];
            const int shift = row < 8 ? 0 : 16;
            word = (word & ~(0xffffu << shift)) | bits << shift;
        }
    }
    return places;
}

void check_sparse_matmul(Bits bits, int pair,
                         void (*multiply)(int, float*, const uint32_t*, const uint32_t*,
                                          const uint32_t*)) {
    const int kDepth = 32;
    // What is kept lies as a dense factor of half the depth does.
    std::vector<uint32_t> a(32 * 4), b(32 * 4);
    std::vector<std::vector<int>> dense(16, std::vector<int>(kDepth, 0));
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 8; ++i) {
            const Place at = place_in_a16(lane, i);
            const auto [first, second] = kept_places(at.row, at.column / 2);
            const int column = at.column / 2 * 4 + (at.column % 2 == 0 ? first : second);
            const int value = a_value({at.row, column});
            dense[static_cast<size_t>(at.row)][static_cast<size_t>(column)] = value;
            a[static_cast<size_t>(lane * 4 + i / 2)] |= bits(value) << (16 * (i % 2));
        }
        for (int i = 0; i < 8; ++i) {
            const Place at{lane % 4 * 2 + (i & 1) + 8 * (i / 2), lane >> 2};
            b[static_cast<size_t>(lane * 4 + i / 2)] |= bits(b_value(at)) << (16 * (i % 2));
        }
    }
    const std::vector<uint32_t> places = sparse_places(pair);
    under_all_schedules([&] {
        std::vector<float> d(128);
        for (int i = 0; i < 128; ++i) {
            d[static_cast<size_t>(i)] = static_cast<float>(start_value(place_in_d(i / 4, i % 4)));
        }
        multiply(pair, d.data(), a.data(), b.data(), places.data());
        for (int i = 0; i < 128; ++i) {
            const Place at = place_in_d(i / 4, i % 4);
            int sum = start_value(at);
            for (int k = 0; k < kDepth; ++k) {
                sum += dense[static_cast<size_t>(at.row)][static_cast<size_t>(k)] *
                       b_value({k, at.column});
            }
            CAPTURE(i);
            CHECK(d[static_cast<size_t>(i)] == static_cast<float>(sum));
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
    check_matmul<float>(16, bits_bf16, wrappers::mma_bf16);
    check_matmul<float>(16, bits_f16, wrappers::mma_f16);
}

TEST_CASE("m16n8k32 products of e4m3 and int8") {
    check_matmul<float>(32, bits_e4m3, wrappers::mma_e4m3);
    check_matmul<int>(32, bits_i8, wrappers::mma_i8);
}

TEST_CASE("sparse m16n8k32 products of bfloat16 and half, by the places of either pair of lanes") {
    for (const int pair : {0, 1}) {
        check_sparse_matmul(bits_bf16, pair, wrappers::mma_sparse_bf16);
        check_sparse_matmul(bits_f16, pair, wrappers::mma_sparse_f16);
    }
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
