// Launches: shapes that no device takes, the order of blocks, recording, and exceptions of kernels.
#include "kernels/cuda_emulation/launch.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/keywords.h"
#include "kernels/cuda_emulation/settings.h"
#include "kernels/cuda_emulation/thread.h"

using namespace nvllm;
using gpu::emulation::Fault;
using gpu::emulation::Order;

namespace {

void note_block(std::vector<unsigned>* blocks) {
    if (threadIdx.x == 0) blocks->push_back(blockIdx.x);
}

void wait_in_threads_below(unsigned threads) {
    if (threadIdx.x < threads) gpu::wait_for_work_before();
}

void fail_in_thread(int thread) {
    NVLLM_CHECK(static_cast<int>(threadIdx.x) != thread, "thread " + std::to_string(thread));
}

std::vector<unsigned> blocks_in(Order order, uint64_t seed) {
    const gpu::emulation::ScopedSettings scoped({.order = order, .seed = seed});
    std::vector<unsigned> blocks;
    gpu::launch(note_block, {.grid = {5}, .block = {32}}, &blocks);
    return blocks;
}

std::vector<std::function<void()>> recorded;

}  // namespace

TEST_CASE("shapes that no device takes are refused") {
    std::vector<unsigned> blocks;
    const auto launch = [&](const gpu::Launch& shape) { gpu::launch(note_block, shape, &blocks); };
    CHECK_THROWS_AS(launch({.grid = {1}, .block = {1025}}), Fault);
    CHECK_THROWS_AS(launch({.grid = {1}, .block = {1, 1, 65}}), Fault);
    CHECK_THROWS_AS(launch({.grid = {1, 65536}, .block = {32}}), Fault);
    CHECK_THROWS_AS(launch({.grid = {1}, .block = {32}, .shared_bytes = 228 * 1024}), Fault);
    CHECK_THROWS_AS(launch({.grid = {0}, .block = {32}}), Error);
    CHECK_THROWS_AS(launch({.grid = {-1}, .block = {32}}), Error);
    CHECK(blocks.empty());
    launch({.grid = {1}, .block = {1024}, .shared_bytes = 227 * 1024});
    CHECK(blocks == std::vector<unsigned>{0});
}

TEST_CASE("blocks run in the order that the settings ask for") {
    CHECK(blocks_in(Order::in_order, 1) == std::vector<unsigned>{0, 1, 2, 3, 4});
    CHECK(blocks_in(Order::reverse, 1) == std::vector<unsigned>{4, 3, 2, 1, 0});
    CHECK(blocks_in(Order::greedy, 1) == blocks_in(Order::greedy, 1));
    CHECK(blocks_in(Order::greedy, 1) != blocks_in(Order::greedy, 4));
}

TEST_CASE("a recorded launch runs as often as it is asked to, with the arguments of its time") {
    std::vector<unsigned> blocks;
    gpu::emulation::set_launch_recorder(
        [](void*, std::function<void()> run) { recorded.push_back(std::move(run)); });
    gpu::launch(note_block, {.grid = {2}, .block = {32}}, &blocks);
    gpu::emulation::set_launch_recorder(nullptr);
    CHECK(blocks.empty());
    REQUIRE(recorded.size() == 1);
    recorded.front()();
    recorded.front()();
    CHECK(blocks == std::vector<unsigned>{0, 1, 0, 1});
    recorded.clear();
}

TEST_CASE("kernels that may overlap the one before wait for it, in every thread") {
    const gpu::Launch overlapping{.grid = {3}, .block = {64}, .overlaps = true};
    gpu::launch(wait_in_threads_below, overlapping, 64u);
    CHECK_THROWS_AS(gpu::launch(wait_in_threads_below, overlapping, 63u), Fault);
    CHECK_THROWS_AS(gpu::launch(wait_in_threads_below, overlapping, 0u), Fault);
    gpu::launch(wait_in_threads_below, {.grid = {3}, .block = {64}}, 0u);
}

TEST_CASE("a kernel that was compiled without the wait overlaps nothing, whatever the device") {
    using gpu::waits_for_work_before;
    CHECK(waits_for_work_before({90, 90}));
    CHECK(waits_for_work_before({100, 103}));
    CHECK(!waits_for_work_before({80, 80}));
    CHECK(!waits_for_work_before({80, 90}));  // its driver made code of compute_80 for a newer GPU
    CHECK(!waits_for_work_before({89, 89}));
    const gpu::Launch overlapping{.grid = {3}, .block = {64}, .overlaps = true};
    const auto* const kernel = reinterpret_cast<const void*>(&wait_in_threads_below);
    for (const gpu::CompiledVersion& version : {gpu::CompiledVersion{80, 80}, {80, 90}}) {
        gpu::emulation::set_compiled_version(kernel, version);
        CHECK(!gpu::emulation::as_compiled(overlapping, kernel).overlaps);
        gpu::launch(wait_in_threads_below, overlapping, 64u);
    }
    gpu::emulation::set_compiled_version(kernel, {90, 90});
    CHECK(gpu::emulation::as_compiled(overlapping, kernel).overlaps);
    CHECK_THROWS_AS(gpu::launch(wait_in_threads_below, overlapping, 63u), Fault);
}

TEST_CASE("a thread's exception ends the launch, and the next one works") {
    CHECK_THROWS_AS(gpu::launch(fail_in_thread, {.grid = {2}, .block = {64}}, 40), Error);
    gpu::launch(fail_in_thread, {.grid = {2}, .block = {64}}, 64);
}
