// Emulated tests of rotary embedding on CUDA against double precision.
#include "kernels/cuda/ops.h"

#include "emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

void check_rotation(DType dtype, int64_t heads, int64_t head_dim, int64_t rotary, int64_t gap,
                    ops::RopePairs pairs) {
    testing::Machine machine(1);
    testing::Random random(2);
    const int64_t half = rotary / 2;
    std::vector<int32_t> positions{0, 7, 100000};
    std::vector<float> frequencies;
    for (int64_t i = 0; i < half; ++i)
        frequencies.push_back(
            std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half)));
    std::vector<float> cosines(static_cast<size_t>(3 * half)), sines = cosines;
    cuda::rope_cos_sin(machine.context(), testing::view(positions, {3}),
                       testing::view(frequencies, {half}), 1.25f, testing::view(cosines, {3, half}),
                       testing::view(sines, {3, half}), {});
    for (int64_t i = 0; i < 3 * half; ++i) {
        const double angle = static_cast<float>(positions[static_cast<size_t>(i / half)]) *
                             frequencies[static_cast<size_t>(i % half)];
        CHECK(testing::close(cosines[static_cast<size_t>(i)], 1.25 * std::cos(angle), 2e-7, 1e-9));
        CHECK(testing::close(sines[static_cast<size_t>(i)], 1.25 * std::sin(angle), 2e-7, 1e-9));
    }
    const int64_t width = heads * head_dim;
    Buffer x(dtype, random.values(3 * (width + gap)));
    const Buffer before = x;
    cuda::rope(machine.context(), testing::view(cosines, {3, half}),
               testing::view(sines, {3, half}), pairs,
               x.matrix(3, width, width + gap).split_last(heads));
    CHECK(testing::matches(x, dtype, 1e-6, [&](int64_t i) -> double {
        const int64_t token = i / (width + gap), in_row = i % (width + gap);
        const int64_t d = in_row % head_dim;
        if (in_row >= width || d >= rotary) return before[i];
        const bool interleaved = pairs == ops::RopePairs::interleaved;
        const bool first = interleaved ? d % 2 == 0 : d < half;
        const int64_t distance = interleaved ? 1 : half;
        const auto angle = static_cast<size_t>(token * half + (interleaved ? d / 2 : d % half));
        const double other = first ? -before[i + distance] : before[i - distance];
        return before[i] * double{cosines[angle]} + other * sines[angle];
    }));
}

}  // namespace

TEST_CASE("cuda: rotation matches double precision") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const auto pairs : {ops::RopePairs::halves, ops::RopePairs::interleaved}) {
                check_rotation(dtype, 3, 64, 64, 0, pairs);
                check_rotation(dtype, 40, 64, 32, 8, pairs);
                check_rotation(dtype, 2, 22, 10, 3, pairs);
            }
        }
    });
}

TEST_CASE("cuda: factors of positions grow with each context that was passed") {
    under_all_schedules([] {
        testing::Machine machine(1);
        std::vector<int32_t> positions{0, 63, 64, 1000, 262143};
        std::vector<float> factors(5);
        cuda::position_factors(machine.context(), testing::view(positions, {5}), 0.1f, 64, 1,
                               testing::view(factors, {5}));
        for (size_t i = 0; i < 5; ++i) {
            const double turns = std::floor((positions[i] + 1) / 64.0);
            CHECK(testing::close(factors[i], 1.0 + double{0.1f} * std::log(1.0 + turns), 2e-7));
        }
    });
}

TEST_CASE("cuda: each token's angles are those of the frequencies that it chooses") {
    under_all_schedules([] {
        testing::Machine machine(1);
        std::vector<int32_t> positions{7, 100, 7, 100}, choices{0, 1, 1, 0};
        std::vector<float> frequencies = testing::Random(5).values(2 * 37);
        std::vector<float> cosines(4 * 37), sines = cosines;
        cuda::rope_cos_sin(machine.context(), testing::view(positions, {4}),
                           testing::view(frequencies, {2, 37}), 1.25f,
                           testing::view(cosines, {4, 37}), testing::view(sines, {4, 37}),
                           testing::view(choices, {4}));
        for (size_t i = 0; i < 4 * 37; ++i) {
            const size_t token = i / 37;
            const float frequency = frequencies[static_cast<size_t>(choices[token]) * 37 + i % 37];
            const double angle = static_cast<float>(positions[token]) * frequency;
            CHECK(testing::close(cosines[i], 1.25 * std::cos(angle), 2e-7, 1e-9));
            CHECK(testing::close(sines[i], 1.25 * std::sin(angle), 2e-7, 1e-9));
        }
    });
}
