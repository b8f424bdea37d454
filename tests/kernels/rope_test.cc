// Tests of rotary embedding.
#include "kernels/ops/rope.h"

#include <cmath>

#include "testing.h"

using namespace nvllm;

TEST_CASE("angles are float products, and cosine and sine of them are exact") {
    testing::Machine machine;
    std::vector<int32_t> positions = {0, 1, 2, 77, 4095, 131071};
    std::vector<float> frequencies;
    for (int i = 0; i < 37; ++i)
        frequencies.push_back(std::pow(10000.0f, -static_cast<float>(i) / 37.0f));
    std::vector<float> cosines(6 * 37), sines(6 * 37);
    ops::rope_cos_sin(machine.context(), testing::view(positions, {6}),
                      testing::view(frequencies, {37}), 0.5f, testing::view(cosines, {6, 37}),
                      testing::view(sines, {6, 37}));
    for (size_t t = 0; t < 6; ++t) {
        for (size_t i = 0; i < 37; ++i) {
            const float angle = static_cast<float>(positions[t]) * frequencies[i];
            REQUIRE(cosines[t * 37 + i] ==
                    static_cast<float>(std::cos(static_cast<double>(angle))) * 0.5f);
            REQUIRE(sines[t * 37 + i] ==
                    static_cast<float>(std::sin(static_cast<double>(angle))) * 0.5f);
        }
    }
}

TEST_CASE("each token's angles are those of the frequencies that it chooses") {
    testing::Machine machine;
    std::vector<int32_t> positions = {3, 70, 3, 70, 9}, choices = {0, 1, 1, 0, 2};
    const std::vector<float> frequencies = testing::Random(5).values(3 * 6);
    std::vector<float> cosines(5 * 6), sines(5 * 6);
    std::vector<float> all = frequencies;
    ops::rope_cos_sin(machine.context(), testing::view(positions, {5}), testing::view(all, {3, 6}),
                      1.5f, testing::view(cosines, {5, 6}), testing::view(sines, {5, 6}),
                      testing::view(choices, {5}));
    for (size_t t = 0; t < 5; ++t) {
        const auto row = frequencies.begin() + 6 * choices[t];
        std::vector<float> own(row, row + 6), cosine(6), sine(6);
        std::vector<int32_t> position = {positions[t]};
        ops::rope_cos_sin(machine.context(), testing::view(position, {1}), testing::view(own, {6}),
                          1.5f, testing::view(cosine, {1, 6}), testing::view(sine, {1, 6}));
        for (size_t i = 0; i < 6; ++i) {
            CHECK(cosines[t * 6 + i] == cosine[i]);
            CHECK(sines[t * 6 + i] == sine[i]);
        }
    }
}

namespace {

void check_rotation(ops::RopePairs pairs) {
    const bool interleaved = pairs == ops::RopePairs::interleaved;
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t half : {1, 3, 8, 16, 20, 64}) {
            const int64_t tokens = 4, heads = 3, head_dim = 2 * half + 5,
                          stride = heads * head_dim + 7;
            testing::Random random(static_cast<uint64_t>(half));
            std::vector<float> x = random.values(tokens * stride);
            std::vector<float> cosines = random.values(tokens * half),
                               sines = random.values(tokens * half);
            std::vector<float> expected = x;
            for (int64_t t = 0; t < tokens; ++t) {
                for (int64_t h = 0; h < heads; ++h) {
                    for (int64_t i = 0; i < half; ++i) {
                        const int64_t first = interleaved ? 2 * i : i;
                        const auto low = static_cast<size_t>(t * stride + h * head_dim + first);
                        const auto high = low + static_cast<size_t>(interleaved ? 1 : half);
                        const float c = cosines[static_cast<size_t>(t * half + i)];
                        const float s = sines[static_cast<size_t>(t * half + i)];
                        expected[low] = x[low] * c - x[high] * s;
                        expected[high] = x[high] * c + x[low] * s;
                    }
                }
            }
            ops::rope(machine.context(), testing::view(cosines, {tokens, half}),
                      testing::view(sines, {tokens, half}), pairs,
                      testing::matrix(x, tokens, heads * head_dim, stride).split_last(heads));
            CHECK(testing::same_bits(x, expected));
        }
    });
}

}  // namespace

TEST_CASE("rope rotates pairs of the first values of each head and leaves the rest") {
    check_rotation(ops::RopePairs::halves);
    check_rotation(ops::RopePairs::interleaved);
}

TEST_CASE("factors of positions grow with each context that was passed") {
    testing::Machine machine;
    std::vector<int32_t> positions = {0, 63, 64, 1000, 262143};
    std::vector<float> factors(5);
    ops::position_factors(machine.context(), testing::view(positions, {5}), 0.1f, 64, 0,
                          testing::view(factors, {5}));
    CHECK(factors[0] == 1.0f);
    CHECK(factors[1] == 1.0f);
    for (size_t i = 2; i < 5; ++i) {
        const double turns = std::floor(positions[i] / 64.0);
        CHECK(testing::close(factors[i], 1.0 + double{0.1f} * std::log(1.0 + turns), 2e-7));
    }
    ops::position_factors(machine.context(), testing::view(positions, {5}), 0.1f, 64, 1,
                          testing::view(factors, {5}));
    for (size_t i = 0; i < 5; ++i) {
        const double turns = std::floor((positions[i] + 1) / 64.0);
        CHECK(testing::close(factors[i], 1.0 + double{0.1f} * std::log(1.0 + turns), 2e-7));
    }
}
