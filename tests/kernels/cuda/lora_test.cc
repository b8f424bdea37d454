// Emulated tests of CUDA's adapters.
#include "kernels/cuda/ops.h"

#include "../lora_case.h"
#include "emulated.h"

using namespace nvllm;
using testing::LoraCase;

namespace {

// Every slot, none; and, with many rows, whole tiles of one slot and tiles of several.
std::vector<int32_t> slots(int64_t rows) {
    std::vector<int32_t> slots = {0, 5, 1, 2, 0, 3, 4, 2, 5, 0};
    while (static_cast<int64_t>(slots.size()) < rows) {
        const auto row = static_cast<int32_t>(slots.size());
        slots.push_back(row / 24 % 2 == 0 ? row / 48 % 6 : row % 6);
    }
    slots.resize(static_cast<size_t>(rows));
    return slots;
}

std::vector<float> computed(LoraCase& batch, const testing::Machine& machine) {
    return batch.computed(machine.context(), cuda::lora_shrink, cuda::lora_expand);
}

void check_values(int64_t in, int64_t rows, DType dtype,
                  const testing::LoraWidths& widths = testing::kUnevenWidths) {
    testing::Machine machine(1);
    LoraCase batch(in, slots(rows), dtype, widths);
    const std::vector<float> y = computed(batch, machine);
    std::vector<double> magnitudes;
    const std::vector<double> expected = batch.expected(magnitudes);
    for (size_t i = 0; i < y.size(); ++i) {
        REQUIRE(testing::close(y[i], expected[i], testing::rounding(dtype), 4e-7 * magnitudes[i]));
    }
}

}  // namespace

TEST_CASE("cuda: adapters of several ranks and types match double precision") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            check_values(40, 12, dtype);
            check_values(40, 12, dtype, testing::kEvenWidths);
        }
        check_values(19, 11, DType::f32);
        check_values(513, 3, DType::bf16);
    });
    for (const DType dtype : testing::kFloatTypes) {
        check_values(72, 299, dtype);
        check_values(72, 299, dtype, testing::kEvenWidths);
    }
}

TEST_CASE(
    "cuda: no bit of a row depends on the adapters beside it, nor on how many rows there are") {
    testing::Machine machine(1);
    for (const int64_t rows : {12, 299}) {
        LoraCase batch(72, slots(rows), DType::bf16,
                       rows == 12 ? testing::kUnevenWidths : testing::kEvenWidths);
        const std::vector<float> together = computed(batch, machine);
        for (int64_t row = 0; row < rows; row += rows / 12) {
            LoraCase alone = batch.alone(row);
            CHECK(testing::same_bits(computed(alone, machine), batch.row_of(together, row)));
        }
    }
}

TEST_CASE("cuda: rows of one slot are taken from another matrix") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const DType dtype : testing::kFloatTypes) {
            constexpr int64_t kRows = 5, kWidth = 37;
            testing::Buffer x(dtype, testing::Random(1).values(kRows * kWidth));
            testing::Buffer y(dtype, testing::Random(2).values(kRows * kWidth));
            const testing::Buffer before = y;
            std::vector<int32_t> of_row = {0, 2, 1, 2, 3};
            cuda::lora_select(machine.context(), x.view({kRows, kWidth}),
                              testing::view(of_row, {kRows}), 2, y.view({kRows, kWidth}));
            for (int64_t i = 0; i < kRows * kWidth; ++i) {
                const bool is_taken = of_row[static_cast<size_t>(i / kWidth)] == 2;
                CHECK(y[i] == (is_taken ? x[i] : before[i]));
            }
        }
    });
}

TEST_CASE(
    "cuda: choices of experts have slots of their own, and none of tokens without an adapter") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        constexpr int64_t kTokens = 5, kExperts = 7;
        std::vector<int32_t> of_token = {2, 0, 1, 3, 2};
        std::vector<int32_t> experts = {6, 1, 0, 3, 2, 5, 4, 4, 6, 0};
        std::vector<int32_t> order = {9, 2, 1, 4, 3, 7, 6, 5, 0, 8};
        std::vector<int32_t> out(order.size(), -1);
        cuda::lora_expert_slots(machine.context(), testing::view(of_token, {kTokens}),
                                testing::view(experts, {kTokens, 2}), testing::view(order, {10}),
                                kExperts, testing::view(out, {10}));
        for (size_t i = 0; i < order.size(); ++i) {
            const auto choice = static_cast<size_t>(order[i]);
            const int32_t slot = of_token[choice / 2];
            const auto expected =
                slot == 0 ? 0 : (slot - 1) * static_cast<int32_t>(kExperts) + experts[choice] + 1;
            CHECK(out[i] == expected);
        }
    });
}
