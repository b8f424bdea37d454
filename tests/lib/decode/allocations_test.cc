// The sampler allocates nothing in the steady state: counted at operator new.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "lib/decode/sampler.h"

namespace {
size_t num_allocations = 0;
}  // namespace

// Not inlined: compilers would warn of malloc beside delete where they see through one of them
// only.
[[gnu::noinline]] void* operator new(size_t bytes) {
    ++num_allocations;
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
// std::stable_sort asks this way; it must match the delete below.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

TEST_CASE("after its first row the sampler allocates nothing") {
    using namespace nvllm;
    constexpr size_t kVocab = 5000;
    SamplerScratch scratch;
    std::vector<float> logits(kVocab);
    const auto fill = [&](int step) {
        for (size_t i = 0; i < kVocab; ++i)
            logits[i] = 5.0f * std::sin(static_cast<float>(i) * 0.37f + step);
    };
    for (int kind = 0; kind < 5; ++kind) {
        SamplingParams params;
        params.seed = 1;
        params.max_tokens = 300;
        if (kind == 1) params.temperature = 0.0f;
        if (kind == 2) params.top_k = 1000;
        if (kind == 3) params.top_p = 0.99f;
        if (kind == 4) {
            params.repetition_penalty = 1.1f;
            params.min_p = 0.01f;
        }
        SequenceSamplingState state(params, std::vector<int32_t>{1, 2}, 2, {}, 0);
        fill(0);
        state.accept(sample(state, logits, scratch).value().token_id);
        const size_t before = num_allocations;
        for (int step = 1; step < 200; ++step) {
            fill(step);
            state.accept(sample(state, logits, scratch).value().token_id);
        }
        const size_t after = num_allocations;  // doctest's own work below allocates
        CAPTURE(kind);
        CHECK(after == before);
    }
}
