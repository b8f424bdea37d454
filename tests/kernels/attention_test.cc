// Tests of paged attention: against double precision, and bit for bit across cuts, blocks, batches
// and threads.
#include "kernels/ops/attention.h"

#include <array>
#include <cmath>

#include "attention_batch.h"
#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "reference.h"
#include "stored_kv.h"
#include "testing.h"
#include "tests/sanitized.h"

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
                       const PagedAttentionOptions& options, const std::vector<float>& out,
                       const testing::Tree& tree = {}) {
    const std::vector<double> keys =
        testing::as_stored(shape.dtype, text.keys, shape.head_dim, options.scales.key);
    const std::vector<double> values =
        testing::as_stored(shape.dtype, text.values, shape.head_dim, options.scales.value);
    const std::vector<double> queries =
        testing::as_operands(shape.dtype, text.queries, shape.head_dim);
    // Values are at most 1, and weights of them add up to that.
    const double bound = 1e-5 + testing::probability_rounding(shape.dtype, shape.head_dim);
    for (int64_t t = first; t < text.length; ++t) {
        for (int64_t h = 0; h < shape.heads; ++h) {
            const int64_t kv_head = h / (shape.heads / shape.kv_heads);
            const auto at = [&](int64_t p, int64_t d) {
                return static_cast<size_t>((p * shape.kv_heads + kv_head) * shape.head_dim + d);
            };
            const auto row = queries.begin() + (t * shape.heads + h) * shape.head_dim;
            const auto [visible, end] = reference::seen_from(options, t, text.length);
            reference::Masks masks;
            masks.bias = [&, t, h](int64_t p) {
                return reference::position_bias(options, h, t, p);
            };
            if (options.sinks.data != nullptr) masks.sink = options.sinks.as<float>()[h];
            masks.sees = [&, t](int64_t p) { return tree.sees(t - first, p - first); };
            const reference::Values expected = reference::attention(
                {row, row + shape.head_dim}, [&](int64_t p, int64_t d) { return keys[at(p, d)]; },
                [&](int64_t p, int64_t d) { return values[at(p, d)]; }, visible, end, options,
                masks);
            for (int64_t d = 0; d < shape.head_dim; ++d) {
                const float actual =
                    out[static_cast<size_t>(((t - first) * shape.heads + h) * shape.head_dim + d)];
                if (!testing::close(actual, expected[static_cast<size_t>(d)], 1e-5, bound))
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
            for (const int64_t head_dim :
                 test::all_or_few({1, 5, 16, 24, 64, 80, 128}, {5, 24, 128})) {
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

TEST_CASE("a query sees nothing of earlier chunks, however the prompt is cut") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : testing::kFloatTypes) {
            // Within a tile, over several, and over a segment.
            for (const int64_t chunk : {1, 13, 64, 100, 600}) {
                const Shape shape{4, 2, 24, dtype};
                PagedAttentionOptions options{0.2f};
                options.chunk = chunk;
                CAPTURE(chunk);
                const Text text(shape, 1300, 12);
                const std::vector<float> whole =
                    Step{shape, 16, options}.run(machine, {&text}, {1300}, {1300});
                CHECK(matches_reference(shape, text, 0, options, whole));
                for (const int64_t count : {1, 7, 200}) {
                    CHECK(testing::same_bits(
                        Step{shape, 8, options}.run(machine, {&text}, {1300}, {count}),
                        last_rows(whole, shape, count)));
                }
            }
        }
    });
}

TEST_CASE("values of equal scores have equal weights, which no rounding changes") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t head_dim : {5, 16, 48}) {
            for (const int64_t window : {0, 37}) {
                const Shape shape{4, 2, head_dim, DType::bf16};
                Text text(shape, 150, 17);
                std::ranges::fill(text.queries, 0.0f);
                const std::vector<double> values =
                    testing::as_stored(shape.dtype, text.values, head_dim, 1.0f);
                const std::vector<float> out =
                    Step{shape, 16, {0.2f, window, 0}}.run(machine, {&text}, {150}, {150});
                bool good = true;
                for (int64_t at = 0; at < std::ssize(out); ++at) {
                    const int64_t t = at / shape.width();
                    const int64_t head = at % shape.width() / head_dim;
                    const int64_t first = window > 0 ? std::max<int64_t>(0, t + 1 - window) : 0;
                    double mean = 0;
                    for (int64_t p = first; p <= t; ++p) {
                        const int64_t row = p * shape.kv_heads + head / 2;
                        mean += values[static_cast<size_t>(row * head_dim + at % head_dim)] /
                                static_cast<double>(t + 1 - first);
                    }
                    good = good && testing::close(out[static_cast<size_t>(at)], mean, 1e-6, 1e-6);
                }
                CHECK(good);
            }
        }
    });
}

TEST_CASE("attention over scaled storage matches the reference and has the same bits every way") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : {DType::f8_e4m3, DType::i8}) {
            for (const int64_t head_dim : {5, 32, 80}) {
                PagedAttentionOptions options{0.15f, head_dim == 80 ? 100 : 0,
                                              head_dim == 5 ? 3.0f : 0.0f};
                options.scales.key = 0.37f;
                options.scales.value = 0.011f;
                const Shape shape{6, 2, head_dim, dtype};
                const Text text(shape, 1200, 13), other(shape, 70, 14);
                testing::Machine machine(1), threaded(3);
                const std::vector<float> whole =
                    Step{shape, 16, options}.run(machine, {&text}, {1200}, {1200});
                CHECK(matches_reference(shape, text, 1190, options, last_rows(whole, shape, 10)));
                for (const int64_t count : {1, 5, 40, 300}) {
                    const int64_t block_size = count == 5 ? 7 : 32;
                    CHECK(testing::same_bits(
                        last_rows(Step{shape, block_size, options}.run(threaded, {&other, &text},
                                                                       {70, 1200}, {3, count}),
                                  shape, count),
                        last_rows(whole, shape, count)));
                }
            }
        }
    });
}

TEST_CASE("sinks join the denominator of each head") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : {DType::bf16, DType::i8}) {
            const Shape shape{4, 2, 24, dtype};
            std::vector<float> sinks{-3.0f, 0.5f, 2.0f, 40.0f};
            PagedAttentionOptions options{0.2f, 0, dtype == DType::i8 ? 3.0f : 0.0f};
            options.sinks = testing::view(sinks, {4});
            const Text text(shape, ops::kAttentionSegment + 100, 17);
            testing::Machine one(1), three(3);
            const auto run = [&](testing::Machine& machine, int64_t length, int64_t count) {
                return Step{shape, 16, options}.run(machine, {&text}, {length}, {count});
            };
            const std::vector<float> last = run(one, text.length, 3);
            CHECK(matches_reference(shape, text, text.length - 3, options, last));
            CHECK(testing::same_bits(run(three, text.length, 3), last));
            CHECK(testing::same_bits(last_rows(run(one, text.length, 90), shape, 3), last));
        }
    });
}

TEST_CASE("rows of a tree see what was cached, their ancestors and themselves") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t rows : {1, 7, 20, 64}) {
            for (const DType dtype : {DType::f32, DType::i8}) {
                const Shape shape{6, 2, 16, dtype};
                const Text text(shape, 140, 19), other(shape, 100, 20);
                PagedAttentionOptions options{0.25f, 0, rows == 7 ? 2.0f : 0.0f};
                testing::Machine machine(2);
                const auto run = [&](const testing::Tree& tree) {
                    std::vector<int32_t> parents = testing::Tree::text(3).parents;
                    parents.insert(parents.end(), tree.parents.begin(), tree.parents.end());
                    options.parents = testing::view(parents, {rows + 3});
                    return last_rows(Step{shape, 16, options}.run(machine, {&other, &text},
                                                                  {100, 140}, {3, rows}),
                                     shape, rows);
                };
                const testing::Tree tree = testing::Tree::random(rows, 5);
                CHECK(matches_reference(shape, text, 140 - rows, options, run(tree), tree));
                const std::vector<float> as_text = run(testing::Tree::text(rows));
                options.parents = {};
                CHECK(testing::same_bits(
                    as_text, Step{shape, 16, options}.run(machine, {&text}, {140}, {rows})));
            }
        }
    });
}

namespace {

// What row `row` of a tree descends from, as a text behind the first `first` tokens of another.
Text path_of(const Shape& shape, const Text& text, int64_t first, const testing::Tree& tree,
             int64_t row) {
    std::vector<int64_t> places;
    for (; row >= 0; row = tree.parents[static_cast<size_t>(row)]) {
        places.insert(places.begin(), first + row);
    }
    Text path = text;
    path.length = first + std::ssize(places);
    const auto move = [&](std::vector<float>& values, int64_t width) {
        const std::vector<float> before = values;
        for (int64_t i = 0; i < std::ssize(places); ++i) {
            std::copy_n(before.begin() + places[static_cast<size_t>(i)] * width, width,
                        values.begin() + (first + i) * width);
        }
    };
    move(path.queries, shape.width());
    move(path.keys, shape.kv_heads * shape.head_dim);
    move(path.values, shape.kv_heads * shape.head_dim);
    return path;
}

}  // namespace

TEST_CASE("each row of a tree has the bits of the text that it ends") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : testing::kKvTypes) {
            for (const int64_t window : {0, 50}) {
                for (const int64_t first : {3, 58, 1020}) {
                    const Shape shape{6, 2, 32, dtype};
                    constexpr int64_t rows = 19;
                    const Text text(shape, first + rows, 31), other(shape, 70, 32);
                    const testing::Tree tree =
                        testing::Tree::random(rows, static_cast<uint64_t>(first));
                    std::vector<int32_t> parents = tree.parents;
                    std::vector<int32_t> starts{0, 0, static_cast<int32_t>(rows)};
                    PagedAttentionOptions options{0.2f, window, first == 3 ? 3.0f : 0.0f};
                    PagedAttentionOptions of_tree = options;
                    of_tree.parents = testing::view(parents, {rows});
                    of_tree.tree_start_loc = testing::view(starts, {3});
                    testing::Machine machine(2);
                    // All rows in this step, with text before them, and the last ones alone.
                    for (const int64_t count : {rows + 2, rows, int64_t{5}}) {
                        // The batch leaves out what lies before the window of its first slot.
                        if (window > 0 && count < rows) continue;
                        const std::vector<float> out = Step{shape, 16, of_tree}.run(
                            machine, {&other, &text}, {70, first + rows}, {3, count});
                        bool same = true;
                        for (int64_t row = std::max<int64_t>(0, rows - count); row < rows; ++row) {
                            const Text path = path_of(shape, text, first, tree, row);
                            const std::vector<float> alone =
                                Step{shape, 16, options}.run(machine, {&path}, {path.length}, {1});
                            const auto begin =
                                out.end() - (rows - row) * shape.heads * shape.head_dim;
                            same = same &&
                                   testing::same_bits({begin, begin + std::ssize(alone)}, alone);
                        }
                        CHECK(same);
                    }
                }
            }
        }
    });
}

TEST_CASE("a tree that grows backwards is our own mistake") {
    testing::Machine machine;
    const Shape shape{2, 1, 16, DType::f32};
    const Text text(shape, 9, 1);
    std::vector<int32_t> parents{-1, 1};
    PagedAttentionOptions options{0.25f};
    options.parents = testing::view(parents, {2});
    CHECK_THROWS_AS((Step{shape, 4, options}.run(machine, {&text}, {9}, {2})), Error);
    parents[1] = -2;
    CHECK_THROWS_AS((Step{shape, 4, options}.run(machine, {&text}, {9}, {2})), Error);
}

TEST_CASE("int8 storage without scales is our own mistake") {
    testing::Machine machine;
    std::vector<float> queries(16), out(16);
    Buffer cache(DType::i8, 4 * 16);
    std::vector<int32_t> starts{0, 1}, lengths{1}, tables{0};
    CHECK_THROWS_AS(
        ops::paged_attention(machine.context(), testing::view(queries, {1, 1, 16}),
                             cache.view({1, 1, 16, 4}), cache.view({1, 1, 4, 16}),
                             testing::view(starts, {2}), testing::view(lengths, {1}),
                             testing::view(tables, {1, 1}), {}, testing::view(out, {1, 1, 16})),
        Error);
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

TEST_CASE(
    "contexts of several segments: the same bits whatever the cut, the company, and the threads") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t window : {0, 1500}) {
            const Shape shape{4, 2, 24, DType::bf16};
            const PagedAttentionOptions options{0.2f, window, 0};
            const Text text(shape, 2 * ops::kAttentionSegment + 300, 91), other(shape, 70, 92);
            const int64_t length = text.length;
            testing::Machine machine(1);
            const std::vector<float> whole =
                Step{shape, 16, options}.run(machine, {&text}, {length}, {length});
            CHECK(matches_reference(shape, text, length - 2, options, last_rows(whole, shape, 2)));
            for (const int threads : {1, 2, 5}) {  // of which some take segments by themselves
                testing::Machine threaded(threads);
                for (const int64_t count : test::all_or_few({1, 2, 290, 301}, {2, 301})) {
                    const std::vector<float> beside = Step{shape, 32, options}.run(
                        threaded, {&other, &text}, {70, length}, {1, count});
                    CHECK(testing::same_bits(last_rows(beside, shape, count),
                                             last_rows(whole, shape, count)));
                }
            }
        }
    });
}

TEST_CASE("few queries: heads that are taken together have the bits of a prompt's") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t window : {0, 700}) {
            const Shape shape{16, 8, 32, DType::bf16};
            const PagedAttentionOptions options{0.2f, window, 0};
            const Text text(shape, ops::kAttentionSegment + 200, 93), other(shape, 150, 94);
            const int64_t length = text.length;
            testing::Machine machine(1);
            const std::vector<float> whole =
                Step{shape, 16, options}.run(machine, {&text}, {length}, {length});
            CHECK(matches_reference(shape, text, length - 2, options, last_rows(whole, shape, 2)));
            // One thread takes all heads of each, two take pairs of one over each segment.
            for (const int threads : {1, 2, 3}) {
                testing::Machine threaded(threads);
                for (const int64_t count : test::all_or_few({1, 5, 6}, {1, 6})) {
                    const std::vector<float> alone =
                        Step{shape, 16, options}.run(threaded, {&text}, {length}, {count});
                    CHECK(testing::same_bits(alone, last_rows(whole, shape, count)));
                    const std::vector<float> beside =
                        Step{shape, 32, options}.run(threaded, {&other, &other, &other, &text},
                                                     {150, 20, 1, length}, {1, 1, 1, count});
                    CHECK(testing::same_bits(last_rows(beside, shape, count), alone));
                }
            }
        }
    });
}

TEST_CASE("attention both ways over several segments") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        const Shape shape{2, 1, 16, DType::f32};
        const PagedAttentionOptions options{0.25f, 0, 0, false};
        const Text text(shape, ops::kAttentionSegment + 65, 93);
        testing::Machine one(1), four(4);
        const auto run = [&](testing::Machine& machine, int64_t count) {
            return Step{shape, 16, options}.run(machine, {&text}, {text.length}, {count});
        };
        const std::vector<float> last = run(one, 3);
        CHECK(matches_reference(shape, text, text.length - 3, options, last));
        CHECK(testing::same_bits(run(four, 3), last));
        CHECK(testing::same_bits(last_rows(run(four, 200), shape, 3), last));
    });
}

// Whole texts and their last rows, with the same bits for every number of threads.
void check_both_ways(const Shape& shape, const PagedAttentionOptions& options, int64_t length) {
    CAPTURE(options.window);
    CAPTURE(length);
    const Text text(shape, length, 95), other(shape, 77, 97);
    testing::Machine one(1), four(4);
    const auto run = [&](testing::Machine& machine, int64_t block_size, int64_t count) {
        return Step{shape, block_size, options}.run(machine, {&other, &text}, {77, length},
                                                    {77, count});
    };
    const std::vector<float> all = last_rows(run(one, 16, length), shape, length);
    CHECK(matches_reference(shape, text, 0, options, all));
    CHECK(testing::same_bits(last_rows(run(four, 7, length), shape, length), all));
    for (const int64_t count : {int64_t{1}, std::min<int64_t>(length, 40)}) {
        const std::vector<float> last = last_rows(all, shape, count);
        CHECK(testing::same_bits(last_rows(run(one, 1, count), shape, count), last));
        CHECK(testing::same_bits(last_rows(run(four, 16, count), shape, count), last));
    }
}

TEST_CASE("a window of attention both ways is as wide before a query as after it") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const Shape& shape : {Shape{6, 3, 24, DType::bf16}, Shape{3, 3, 10, DType::f32}}) {
            for (const int64_t window : {1, 2, 33, 64, 65, 130}) {
                for (const int64_t length : test::all_or_few({1, 40, 64, 129, 333}, {40, 333})) {
                    check_both_ways(shape, {0.2f, window, 0, false}, length);
                }
            }
            check_both_ways(shape, {0.2f, 300, 0, false}, ops::kAttentionSegment + 65);
        }
    });
}

TEST_CASE("a bias of positions joins the scores of each head, whichever way it looks") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
            const Shape shape{6, 2, 16, dtype};
            for (const int64_t reach : {0, 5, 128}) {
                std::vector<float> bias =
                    testing::Random(3).values(shape.heads * (2 * reach + 1), 3.0f);
                PagedAttentionOptions options{0.2f, 0, 0, false};
                options.position_bias = testing::view(bias, {shape.heads, 2 * reach + 1});
                check_both_ways(shape, options, 150);
                options.causal = true;
                options.window = 37;
                options.soft_cap = 4.0f;
                check_both_ways(shape, options, 333);
            }
        }
    });
}

TEST_CASE("a bias of positions of another shape is our own mistake") {
    testing::Machine machine;
    const Shape shape{2, 1, 16, DType::f32};
    const Text text(shape, 9, 1);
    std::vector<float> bias(12, 0.0f);
    for (const TensorView& wrong :
         {testing::view(bias, {1, 12}), testing::view(bias, {3, 3}), testing::view(bias, {2, 4})}) {
        Step step{shape, 4, {0.25f}};
        step.options.position_bias = wrong;
        CHECK_THROWS_AS(step.run(machine, {&text}, {9}, {9}), Error);
    }
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

TEST_CASE("attention takes no more scratch than a dry run says, however long texts are") {
    const Shape shape{8, 2, 72, DType::bf16};
    const Text text(shape, 100, 61);
    testing::Machine machine(3);
    const PagedAttentionOptions options{0.1f, 0, 0};
    Step{shape, 16, options}.run(machine, {&text}, {100}, {100});
    const Text longer(shape, 5 * ops::kAttentionSegment, 62);
    Step{shape, 16, options}.run(machine, {&longer}, {longer.length}, {1});
    const DryRun dry({}, DType::f32, 3);
    const TensorView rows = dry.view(DType::f32, {1, 8, 72});
    ops::paged_attention(dry.context(), rows, dry.view(DType::bf16, {9, 2, 72, 16}),
                         dry.view(DType::bf16, {9, 2, 16, 72}), dry.view(DType::i32, {2}),
                         dry.view(DType::i32, {1}), dry.view(DType::i32, {1, 9}), options, rows);
    CHECK(machine.scratch().peak_bytes() <= dry.scratch_bytes());
    CHECK(machine.scratch().peak_bytes() > 0);
}

// What attention gives where values have storage of their own, which holds the keys.
TEST_CASE("values that are dimensions of keys have the bits of copies of these") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : {DType::f32, DType::f16, DType::f8_e4m3, DType::i8}) {
            for (const auto& [heads, head_dim, value_dim] :
                 {std::array<int64_t, 3>{2, 24, 16}, {16, 40, 32}, {5, 21, 13}, {3, 16, 16}}) {
                CAPTURE(head_dim);
                const Shape copies{heads, 1, head_dim, dtype};
                Shape within = copies;
                within.value_dim = value_dim;
                Text text(copies, 1100, 23);
                text.values = text.keys;
                for (const int64_t count : {1, 70}) {
                    PagedAttentionOptions options{0.2f, 0, 0};
                    options.scales.key = options.scales.value = 0.5f;
                    const std::vector<float> expected =
                        Step{copies, 8, options}.run(machine, {&text}, {1100}, {count});
                    const std::vector<float> out =
                        Step{within, 8, options}.run(machine, {&text}, {1100}, {count});
                    REQUIRE(std::ssize(out) == count * heads * value_dim);
                    bool equal = true;
                    for (int64_t at = 0; at < std::ssize(out); ++at) {
                        const int64_t row = at / value_dim;
                        const auto same = static_cast<size_t>(row * head_dim + at % value_dim);
                        equal = equal && out[static_cast<size_t>(at)] == expected[same];
                    }
                    CHECK(equal);
                }
            }
        }
    });
}
