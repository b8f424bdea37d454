// Tests of the ops of adapters on the CPU.
#include "kernels/ops/lora.h"

#include "kernels/error.h"
#include "lora_case.h"
#include "testing.h"

using namespace nvllm;
using testing::LoraCase;

namespace {

// Every slot, none, and enough rows of one for several chunks.
std::vector<int32_t> mixed_slots() {
    std::vector<int32_t> slots = {0, 5, 1, 2, 0, 3, 4, 2, 5, 0};
    for (int i = 0; i < 23; ++i) slots.push_back(i % 4 == 3 ? 1 : 5);
    return slots;
}

}  // namespace

TEST_CASE("adapters of several ranks and types in one batch match double precision") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t in : {1, 19, 64, 301}) {
            LoraCase batch(in, mixed_slots());
            const std::vector<float> y = batch.computed(machine.context());
            std::vector<double> magnitudes;
            const std::vector<double> expected = batch.expected(magnitudes);
            for (size_t i = 0; i < y.size(); ++i) {
                REQUIRE(testing::close(y[i], expected[i], 0, 3e-7 * magnitudes[i]));
            }
        }
    });
}

TEST_CASE("no bit of a row depends on the adapters beside it") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        LoraCase batch(83, mixed_slots());
        const std::vector<float> together = batch.computed(machine.context());
        for (int64_t row = 0; row < batch.tokens(); ++row) {
            LoraCase alone = batch.alone(row);
            CHECK(
                testing::same_bits(alone.computed(machine.context()), batch.row_of(together, row)));
        }
    });
}

TEST_CASE("a row of a slot that is not there is a mistake") {
    testing::Machine machine;
    LoraCase batch(8, {1, 6});
    CHECK_THROWS_AS(batch.computed(machine.context()), Error);
}
