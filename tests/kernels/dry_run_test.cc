// Tests of dry runs on the CPU: every op takes in them what it takes when it computes.
#include "kernels/host/dry_run.h"

#include <string_view>

#include "kernels/error.h"
#include "op_scratch_cases.h"
#include "testing.h"

using namespace nvllm;

namespace {

size_t taken(void (*call)(testing::Operands&), int num_threads) {
    testing::Machine machine(num_threads);
    testing::Operands operands(machine.context());
    call(operands);
    return machine.scratch().peak_bytes();
}

size_t counted(void (*call)(testing::Operands&), int num_threads) {
    const DryRun dry({}, DType::f32, num_threads);
    testing::Operands operands(dry.context());
    call(operands);
    return dry.scratch_bytes();
}

void check_op(std::string_view name, void (*call)(testing::Operands&)) {
    CAPTURE(name);
    for (const int num_threads : {1, 3}) {
        const size_t bytes = counted(call, num_threads);
        // A dry run does not know how long sequences are.
        if (name == "paged_attention") {
            CHECK(bytes > 0);
            CHECK(taken(call, num_threads) <= bytes);
        } else {
            CHECK(taken(call, num_threads) == bytes);
        }
    }
}

}  // namespace

TEST_CASE("a dry run of an op counts the scratch that the op takes, under every instruction set") {
    testing::for_each_isa([](cpu::Isa isa) {
        CAPTURE(cpu::isa_name(isa));
#define NVLLM_CHECK_OP(name) check_op(#name, op_scratch_cases::name);
        NVLLM_CPU_OPS(NVLLM_CHECK_OP)
#undef NVLLM_CHECK_OP
        check_op("matmul", op_scratch_cases::matmul);
    });
}

TEST_CASE("a dry run checks what ops are handed") {
    const DryRun dry({}, DType::f32, 2);
    CHECK(dry.context().is_dry_run());
    const TensorView x = dry.view(DType::f32, {2, 3});
    CHECK_THROWS_AS(ops::add(dry.context(), x, dry.view(DType::f32, {2, 4})), Error);
    ops::add(dry.context(), x, x);
    CHECK(dry.scratch_bytes() == 0);
}

TEST_CASE("an arena of a dry run counts like one with memory") {
    ScratchArena with_memory(1 << 16), without = ScratchArena::of_dry_run();
    CHECK_FALSE(with_memory.is_of_dry_run());
    for (ScratchArena* arena : {&with_memory, &without}) {
        CHECK(arena->take(0) != nullptr);
        const ScratchArena::Scope outer(*arena);
        arena->take(100);
        {
            const ScratchArena::Scope inner(*arena);
            CHECK(reinterpret_cast<uintptr_t>(arena->take(5000)) % 64 == 0);
        }
        arena->take(10);
    }
    CHECK(without.peak_bytes() == with_memory.peak_bytes());
    CHECK(without.bytes_in_use() == with_memory.bytes_in_use());
    without.take(size_t{1} << 45);
    CHECK(without.num_growths() == 0);
    without.reset();
    CHECK(without.bytes_in_use() == 0);
}

TEST_CASE("threads of a dry run are counted and run nothing") {
    ThreadPool threads = ThreadPool::of_dry_run(7);
    CHECK(threads.num_threads() == 7);
    CHECK_THROWS_AS(threads.parallel_for(1, 1, [](int64_t, int64_t, int) {}), Error);
}
