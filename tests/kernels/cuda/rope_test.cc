// Emulated tests of rotary embedding on CUDA against double precision.
#include "kernels/cuda/rope.h"

#include "emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

void check_rotation(DType dtype, int64_t heads, int64_t head_dim, int64_t rotary, int64_t gap) {
    testing::Machine machine(1);
    testing::Random random(2);
    const int64_t half = rotary / 2;
    std::vector<int32_t> positions{0, 7, 100000};
    std::vector<float> frequencies;
    for (int64_t i = 0; i < half; ++i)
        frequencies.push_back(
            std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half)));
    std::vector<float> cosines(static_cast<size_t>(3 * half)), sines = cosines;
    cuda::rope_angles(machine.context(), testing::view(positions, {3}),
                      testing::view(frequencies, {half}), 1.25f, testing::view(cosines, {3, half}),
                      testing::view(sines, {3, half}));
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
               testing::view(sines, {3, half}), x.matrix(3, width, width + gap).split_last(heads));
    CHECK(testing::matches(x, dtype, 1e-6, [&](int64_t i) -> double {
        const int64_t token = i / (width + gap), in_row = i % (width + gap);
        const int64_t d = in_row % head_dim;
        if (in_row >= width || d >= rotary) return before[i];
        const auto angle = static_cast<size_t>(token * half + d % half);
        const double other = d < half ? -before[i + half] : before[i - half];
        return before[i] * double{cosines[angle]} + other * sines[angle];
    }));
}

}  // namespace

TEST_CASE("cuda: rotation matches double precision") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            check_rotation(dtype, 3, 64, 64, 0);
            check_rotation(dtype, 40, 64, 32, 8);
            check_rotation(dtype, 2, 22, 10, 3);
        }
    });
}
