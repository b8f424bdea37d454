// Tests of memory in pages: zero, aligned, given back.
#include "kernels/page_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "kernels/context.h"
#include "kernels/device.h"
#include "tests/kernels/testing.h"

using nvllm::kHugePageBytes;
using nvllm::PageMemory;
using nvllm::take_pages;

TEST_CASE("pages are zero and writable, large ones begin at a huge page") {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, kHugePageBytes - 1,
                               kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes + 4097}) {
        const PageMemory memory = take_pages(bytes);
        REQUIRE(memory != nullptr);
        const auto address = reinterpret_cast<uintptr_t>(memory.get());
        CHECK(address % 4096 == 0);
        if (bytes >= kHugePageBytes) CHECK(address % kHugePageBytes == 0);
        for (size_t i = 0; i < bytes; i += 1000) CHECK(memory[i] == std::byte{0});
        for (size_t i = 0; i < bytes; ++i) memory[i] = std::byte{1};
    }
}

TEST_CASE("more pages than there are") { CHECK(take_pages(SIZE_MAX - 100) == nullptr); }

TEST_CASE("a large arena begins at a huge page and is used from its first byte on") {
    nvllm::ScratchArena arena(2 * kHugePageBytes);
    auto* memory = static_cast<std::byte*>(arena.take(2 * kHugePageBytes));
    CHECK(reinterpret_cast<uintptr_t>(memory) % kHugePageBytes == 0);
    memory[2 * kHugePageBytes - 1] = std::byte{1};
    CHECK(arena.num_growths() == 0);
}

TEST_CASE("memory of a tensor is given back whole, however little was asked for") {
    const auto num_mappings = [] {
        std::ifstream maps("/proc/self/maps");
        return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
    };
    const nvllm::ComputeDevice cpu;
    const auto before = num_mappings();
    for (int i = 0; i < 1000; ++i) {
        const auto first = cpu.allocate(16);
        const auto second = cpu.allocate(70'000);
    }
    CHECK(num_mappings() < before + 20);
}
