// Tests of paged attention: against double precision, and bit for bit across cuts, blocks, batches
// and threads.
#include "kernels/ops/attention.h"

#include <cmath>

#include "attention_batch.h"
#include "kernels/error.h"
#include "reference.h"
#include "testing.h"

using namespace nvllm;
using ops::PagedAttentionOptions;
using testing::Buffer;

namespace {

using Shape = testing::AttentionShape;
using Text = testing::AttentionText;

// A step: sequence s computes its last counts[s] tokens; all before them are in the cache.
struct Step {
    const Shape& shape;
    int64_t block_size;
    PagedAttentionOptions options;

    std::vector<float> run(testing::Machine& machine, const std::vector<const Text*>& texts,
                           const std::vector<int64_t>& lengths,
                           const std::vector<int64_t>& counts) {
        std::vector<testing::AttentionPart> parts;
        for (size_t s = 0; s < texts.size(); ++s) {
            parts.push_back({texts[s], lengths[s], counts[s]});
        }
        return testing::AttentionBatch(machine.context(), shape, block_size, options, parts)
            .run(machine.context());
    }
};

bool matches_reference(const Shape& shape, const Text& text, int64_t first,
                       const PagedAttentionOptions& options, const std::vector<float>& out) {
    const Buffer keys(shape.dtype, text.keys), values(shape.dtype, text.values);
    for (int64_t t = first; t < text.length; ++t) {
        for (int64_t h = 0; h < shape.heads; ++h) {
            const int64_t kv_head = h / (shape.heads / shape.kv_heads);
            const auto at = [&](int64_t p, int64_t d) {
                return (p * shape.kv_heads + kv_head) * shape.head_dim + d;
            };
            const auto row = text.queries.begin() + (t * shape.heads + h) * shape.head_dim;
            const int64_t visible =
                options.window > 0 ? std::max<int64_t>(0, t + 1 - options.window) : 0;
            const int64_t end = options.causal ? t + 1 : text.length;
            const reference::Values expected = reference::attention(
                {row, row + shape.head_dim}, [&](int64_t p, int64_t d) { return keys[at(p, d)]; },
                [&](int64_t p, int64_t d) { return values[at(p, d)]; }, visible, end, options);
            for (int64_t d = 0; d < shape.head_dim; ++d) {
                const float actual =
                    out[static_cast<size_t>(((t - first) * shape.heads + h) * shape.head_dim + d)];
                if (!testing::close(actual, expected[static_cast<size_t>(d)], 1e-5, 1e-5))
                    return false;
            }
        }
    }
    return true;
}

std::vector<float> last_rows(const std::vector<float>& all, const Shape& shape, int64_t count) {
    return {all.end() - count * shape.heads * shape.head_dim, all.end()};
}

}  // namespace

TEST_CASE("attention matches the reference for all types, head sizes and options") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t head_dim : {1, 5, 16, 24, 64, 80, 128}) {
                const Shape shape{4, 2, head_dim, dtype};
                const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
                for (const PagedAttentionOptions& options :
                     {PagedAttentionOptions{scale, 0, 0}, PagedAttentionOptions{scale, 37, 0},
                      PagedAttentionOptions{scale, 0, 5.0f},
                      PagedAttentionOptions{scale, 0, 0, false}}) {
                    const Text text(shape, 150, 11);
                    CAPTURE(head_dim);
                    CAPTURE(options.window);
                    CHECK(matches_reference(
                        shape, text, 0, options,
                        Step{shape, 16, options}.run(machine, {&text}, {150}, {150})));
                    CHECK(matches_reference(
                        shape, text, 149, options,
                        Step{shape, 16, options}.run(machine, {&text}, {150}, {1})));
                }
            }
        }
    });
}

TEST_CASE("attention at every length up to three tiles, and with many query heads per kv head") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (int64_t length = 1; length < 200; length += length < 70 ? 1 : 13) {
            const Shape shape{6, 2, 8, DType::bf16};
            const Text text(shape, length, 5);
            const PagedAttentionOptions options{0.4f, 0, 0};
            CHECK(matches_reference(shape, text, length - 1, options,
                                    Step{shape, 8, options}.run(machine, {&text}, {length}, {1})));
        }
        for (const int64_t heads : {1, 7, 100, 130}) {
            const Shape shape{heads, 1, 16, DType::f32};
            const Text text(shape, 20, 5);
            const PagedAttentionOptions options{0.25f, 0, 0};
            CHECK(matches_reference(shape, text, 0, options,
                                    Step{shape, 8, options}.run(machine, {&text}, {20}, {20})));
        }
    });
}

TEST_CASE("the same bits whatever the block size, the cut of the prompt, and the threads") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t window : {0, 50}) {
            const Shape shape{8, 2, 40, DType::bf16};
            const PagedAttentionOptions options{0.2f, window, 0};
            const Text text(shape, 333, 21);
            testing::Machine machine(1);
            const std::vector<float> whole =
                Step{shape, 16, options}.run(machine, {&text}, {333}, {333});
            for (const int64_t block_size : {1, 16, 32}) {
                for (const int threads : {1, 2, 4}) {
                    testing::Machine other(threads);
                    CHECK(testing::same_bits(
                        Step{shape, block_size, options}.run(other, {&text}, {333}, {333}), whole));
                }
            }
            std::vector<float> pieces;
            int64_t done = 0;
            for (const int64_t count : {1, 100, 7, 64, 128, 1, 32}) {
                done += count;
                const std::vector<float> piece =
                    Step{shape, 16, options}.run(machine, {&text}, {done}, {count});
                pieces.insert(pieces.end(), piece.begin(), piece.end());
            }
            REQUIRE(done == 333);
            CHECK(testing::same_bits(pieces, whole));
        }
    });
}

TEST_CASE("the same bits whatever other sequences are in the batch") {
    testing::Machine machine(2);
    testing::for_each_isa([&](cpu::Isa) {
        const Shape shape{4, 4, 64, DType::f16};
        const PagedAttentionOptions options{0.125f, 0, 30.0f};
        const Text first(shape, 90, 31), second(shape, 130, 41), third(shape, 1, 51);
        const std::vector<float> alone =
            Step{shape, 16, options}.run(machine, {&second}, {130}, {30});
        const std::vector<float> batch = Step{shape, 16, options}.run(
            machine, {&third, &first, &second}, {1, 90, 130}, {1, 90, 30});
        CHECK(testing::same_bits(last_rows(batch, shape, 30), alone));
        CHECK(matches_reference(shape, second, 100, options, alone));
    });
}

TEST_CASE("attention both ways: any length, block size, company and number of threads") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        const Shape shape{6, 3, 24, DType::bf16};
        const PagedAttentionOptions options{0.2f, 0, 0, false};
        for (const int64_t length : {1, 2, 31, 63, 64, 65, 128, 150, 333}) {
            CAPTURE(length);
            const Text text(shape, length, 71), other(shape, 77, 81);
            testing::Machine machine(1);
            const std::vector<float> alone =
                Step{shape, 16, options}.run(machine, {&text}, {length}, {length});
            CHECK(matches_reference(shape, text, 0, options, alone));
            for (const int threads : {1, 3}) {
                testing::Machine others(threads);
                for (const int64_t block_size : {1, 7, 16}) {
                    const std::vector<float> beside = Step{shape, block_size, options}.run(
                        others, {&other, &text}, {77, length}, {77, length});
                    CHECK(testing::same_bits(last_rows(beside, shape, length), alone));
                }
            }
        }
    });
}

TEST_CASE("a window of attention both ways is our own mistake") {
    testing::Machine machine;
    const Shape shape{2, 1, 16, DType::f32};
    const Text text(shape, 9, 1);
    const PagedAttentionOptions options{0.25f, 4, 0, false};
    Step step{shape, 4, options};
    CHECK_THROWS_AS(step.run(machine, {&text}, {9}, {9}), Error);
}

TEST_CASE("a sequence without queries in this step is passed over") {
    testing::Machine machine;
    const Shape shape{2, 1, 16, DType::f32};
    const PagedAttentionOptions options{0.25f, 0, 0};
    const Text first(shape, 9, 1), second(shape, 12, 2);
    const std::vector<float> out =
        Step{shape, 4, options}.run(machine, {&first, &second}, {9, 12}, {0, 2});
    CHECK(matches_reference(shape, second, 10, options, out));
}

TEST_CASE("attention takes the scratch it says") {
    const Shape shape{8, 2, 72, DType::bf16};
    const Text text(shape, 100, 61);
    testing::Machine machine(3);
    const PagedAttentionOptions options{0.1f, 0, 0};
    Step{shape, 16, options}.run(machine, {&text}, {100}, {100});
    const size_t limit = ops::paged_attention_scratch_bytes(1, 8, 72, 3);
    CHECK(machine.scratch().peak_bytes() <= (limit + 63) / 64 * 64);
    CHECK(machine.scratch().peak_bytes() > 0);
}
