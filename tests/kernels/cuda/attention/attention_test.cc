// Emulated tests of CUDA attention: against double precision, and the same bits however a text
// comes.
#include "kernels/cuda/ops.h"
#include "kernels/host/dry_run.h"

#include <cstring>

#include "tests/kernels/cuda/emulated.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/stored_kv.h"

using namespace nvllm;
using testing::Buffer;

namespace {

struct Shape {
    DType activation, stored;
    int64_t heads, kv_heads, head_dim, block_size;
};

// Of what is attended: values, or where keys are values too, the first part of these.
int64_t value_dim(const Shape& shape, const ops::PagedAttentionOptions& options) {
    return options.value_dim > 0 ? options.value_dim : shape.head_dim;
}

// The tokens of one sequence.
struct Text {
    int64_t length;
    Buffer queries;
    std::vector<float> keys, values;

    Text(const Shape& shape, int64_t tokens, uint64_t seed)
        : length(tokens),
          queries(shape.activation,
                  testing::Random(seed).values(tokens * shape.heads * shape.head_dim, 2.0f)),
          keys(testing::Random(seed + 1).values(tokens * shape.kv_heads * shape.head_dim, 2.0f)),
          values(testing::Random(seed + 2).values(tokens * shape.kv_heads * shape.head_dim)) {}
};

// The first `length` tokens of a text, of which the last `count` are computed.
struct Part {
    const Text* text;
    int64_t length;
    int64_t count;
};

// What must not be read is NaN or no block at all: storage that was never written, the gaps between
// rows of queries, tables before the window.
class Batch {
  public:
    Batch(const Shape& shape, const ops::PagedAttentionOptions& options,
          const std::vector<Part>& parts, int64_t spare_blocks = 1)
        : shape_(shape),
          options_(options),
          width_(shape.heads * shape.head_dim),
          out_width_(shape.heads * value_dim(shape, options)),
          max_blocks_(longest(parts) / shape.block_size + 1 + spare_blocks),
          blocks_(max_blocks_ * static_cast<int64_t>(parts.size()) + 2),
          keys_(shape.stored, unwritten()),
          values_(shape.stored, unwritten()),
          key_scales_(static_cast<size_t>(blocks_ * shape.kv_heads * shape.block_size),
                      std::nanf("")),
          value_scales_(key_scales_) {
        for (const Part& part : parts) add(part);
        queries_ = Buffer(shape.activation, query_values_);
        out_ = Buffer(shape.activation, starts_.back() * out_width_);
    }

    Buffer& run() {
        testing::Machine machine(1);
        spoil(machine.scratch());
        const auto sequences = static_cast<int64_t>(lengths_.size());
        const int64_t tokens = starts_.back();
        const auto cache = [&](Buffer& buffer) {
            return buffer.view({blocks_, shape_.kv_heads, shape_.block_size, shape_.head_dim});
        };
        const auto scales = [&](std::vector<float>& values) {
            return testing::view(values, {blocks_, shape_.kv_heads, shape_.block_size});
        };
        options_.scales.keys = scales(key_scales_);
        const bool keys_alone = options_.value_dim > 0;
        options_.scales.values = keys_alone ? TensorView() : scales(value_scales_);
        cuda::paged_attention(
            machine.context(),
            queries_.matrix(tokens, width_, width_ + kGap).split_last(shape_.heads), cache(keys_),
            keys_alone ? TensorView() : cache(values_), testing::view(starts_, {sequences + 1}),
            testing::view(lengths_, {sequences}), testing::view(tables_, {sequences, max_blocks_}),
            options_, out_.view({tokens, shape_.heads, value_dim(shape_, options_)}));
        return out_;
    }

    // The rows of sequence s.
    std::vector<float> rows(size_t s) const {
        std::vector<float> result;
        for (int64_t i = starts_[s] * out_width_; i < starts_[s + 1] * out_width_; ++i)
            result.push_back(out_[i]);
        return result;
    }

  private:
    static constexpr int64_t kGap = 8;

    // NaN wherever an op takes scratch: what it did not write there must not count.
    static void spoil(ScratchArena& scratch) {
        const size_t bytes = scratch.reserved_bytes();
        const ScratchArena::Scope scope(scratch);
        std::memset(scratch.take(bytes), 0xff, bytes);
    }

    static int64_t longest(const std::vector<Part>& parts) {
        int64_t most = 0;
        for (const Part& part : parts) most = std::max(most, part.length);
        return most;
    }
    std::vector<float> unwritten() const {
        return std::vector<float>(
            static_cast<size_t>(blocks_ * shape_.kv_heads * shape_.block_size * shape_.head_dim),
            std::nanf(""));
    }

    void add(const Part& part) {
        const auto sequence = static_cast<int64_t>(lengths_.size());
        const int64_t first_table = sequence * max_blocks_;
        tables_.resize(static_cast<size_t>(first_table + max_blocks_), 1 << 30);
        for (int64_t p = 0; p < part.length; ++p) {
            const int64_t run = p / shape_.block_size;
            const int64_t block = blocks_ - 1 - (sequence * max_blocks_ + run);
            tables_[static_cast<size_t>(first_table + run)] = static_cast<int32_t>(block);
            write(part, p, block);
        }
        if (options_.window > 0) drop_before_window(part, first_table);
        for (int64_t t = part.length - part.count; t < part.length; ++t) add_query(*part.text, t);
        starts_.push_back(starts_.back() + static_cast<int32_t>(part.count));
        lengths_.push_back(static_cast<int32_t>(part.length));
    }

    void write(const Part& part, int64_t position, int64_t block) {
        for (int64_t head = 0; head < shape_.kv_heads; ++head) {
            const int64_t row =
                (block * shape_.kv_heads + head) * shape_.block_size + position % shape_.block_size;
            const auto from = (position * shape_.kv_heads + head) * shape_.head_dim;
            write_head(part.text->keys.data() + from, options_.scales.key, row, keys_, key_scales_);
            write_head(part.text->values.data() + from, options_.scales.value, row, values_,
                       value_scales_);
        }
    }

    void write_head(const float* x, float layer_scale, int64_t row, Buffer& cache,
                    std::vector<float>& scales) const {
        const testing::StoredHead head = testing::stored_head(x, shape_.head_dim);
        if (shape_.stored == DType::i8) scales[static_cast<size_t>(row)] = head.scale;
        const float factor = shape_.stored == DType::f8_e4m3 ? 1.0f / layer_scale : 1.0f;
        for (int64_t d = 0; d < shape_.head_dim; ++d) {
            cache.set(row * shape_.head_dim + d, shape_.stored == DType::i8
                                                     ? head.values[static_cast<size_t>(d)]
                                                     : x[d] * factor);
        }
    }

    void drop_before_window(const Part& part, int64_t first_table) {
        const int64_t first = std::max<int64_t>(0, part.length - part.count + 1 - options_.window);
        for (int64_t run = 0; run < first / shape_.block_size; ++run)
            tables_[static_cast<size_t>(first_table + run)] = -7;
    }

    void add_query(const Text& text, int64_t token) {
        for (int64_t i = 0; i < width_; ++i)
            query_values_.push_back(text.queries[token * width_ + i]);
        query_values_.insert(query_values_.end(), kGap, std::nanf(""));
    }

    Shape shape_;
    ops::PagedAttentionOptions options_;
    int64_t width_, out_width_, max_blocks_, blocks_;
    Buffer keys_, values_;
    std::vector<float> key_scales_, value_scales_;
    std::vector<float> query_values_;
    std::vector<int32_t> starts_{0}, lengths_, tables_;
    Buffer queries_{DType::f32, 0}, out_{DType::f32, 0};
};

// Whether `rows` are those of the part in double precision.
bool matches_reference(const Shape& shape, const ops::PagedAttentionOptions& options,
                       const Part& part, const std::vector<float>& rows,
                       const testing::Tree& tree = {}) {
    const bool bytes = dtype_bytes(shape.stored) == 1 && shape.head_dim % 16 == 0;
    const bool exact = shape.activation == DType::f32 || options.value_dim > 0 ||
                       (shape.activation != shape.stored && !bytes);
    const double absolute = exact ? 1e-5 : 2 * testing::rounding(shape.activation);
    const int64_t width = shape.heads * shape.head_dim;
    const auto stored = [&](const std::vector<float>& x, float scale) {
        return testing::as_stored(shape.stored, x, shape.head_dim, scale);
    };
    const std::vector<double> keys = stored(part.text->keys, options.scales.key);
    const std::vector<double> values =
        options.value_dim > 0 ? keys : stored(part.text->values, options.scales.value);
    const int64_t of_head = value_dim(shape, options);
    for (int64_t t = 0; t < part.count; ++t) {
        const int64_t position = part.length - part.count + t;
        const auto [first, count] = reference::seen_from(options, position, part.length);
        for (int64_t head = 0; head < shape.heads; ++head) {
            const int64_t kv_head = head / (shape.heads / shape.kv_heads);
            const auto at = [&](const std::vector<double>& cached) {
                return [&, kv_head](int64_t p, int64_t d) -> double {
                    return cached[static_cast<size_t>(
                        (p * shape.kv_heads + kv_head) * shape.head_dim + d)];
                };
            };
            reference::Masks masks;
            if (options.sinks.data != nullptr) masks.sink = options.sinks.as<float>()[head];
            masks.bias = [&, position, head](int64_t p) {
                return reference::position_bias(options, head, position, p);
            };
            masks.sees = [&, t](int64_t p) { return tree.sees(t, p - (part.length - part.count)); };
            const reference::Values expected = reference::attention(
                testing::dequantized(part.text->queries, position * width + head * shape.head_dim,
                                     shape.head_dim),
                at(keys), at(values), first, count, options, masks);
            for (int64_t d = 0; d < of_head; ++d) {
                const float value =
                    rows[static_cast<size_t>((t * shape.heads + head) * of_head + d)];
                if (!testing::close(value, expected[static_cast<size_t>(d)],
                                    testing::rounding(shape.activation), absolute))
                    return false;
            }
        }
    }
    return true;
}

void check_batch(const Shape& shape, const ops::PagedAttentionOptions& options,
                 std::vector<std::pair<int64_t, int64_t>> lengths_and_counts) {
    CAPTURE(shape.head_dim);
    CAPTURE(static_cast<int>(shape.activation));
    CAPTURE(static_cast<int>(shape.stored));
    std::vector<Text> texts;
    for (const auto& [length, count] : lengths_and_counts)
        texts.emplace_back(shape, length, static_cast<uint64_t>(length));
    std::vector<Part> parts;
    for (size_t i = 0; i < texts.size(); ++i)
        parts.push_back({&texts[i], lengths_and_counts[i].first, lengths_and_counts[i].second});
    Batch batch(shape, options, parts);
    batch.run();
    for (size_t i = 0; i < parts.size(); ++i)
        CHECK(matches_reference(shape, options, parts[i], batch.rows(i)));
}

constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16, f8 = DType::f8_e4m3,
                i8 = DType::i8;

ops::PagedAttentionOptions scaled(ops::PagedAttentionOptions options) {
    options.scales.key = 0.37f;
    options.scales.value = 0.011f;
    return options;
}

}  // namespace

TEST_CASE("cuda: attention of a step of single queries") {
    under_all_schedules([] {
        check_batch({bf16, bf16, 8, 2, 64, 16}, {0.125f}, {{37, 1}, {300, 1}, {1, 1}});
        check_batch({f16, f16, 4, 4, 128, 4}, {0.09f}, {{65, 1}, {520, 1}});
        check_batch({f32, f32, 6, 2, 64, 16}, {0.125f}, {{37, 1}, {300, 1}, {64, 1}});
        // Nine: more than products of few rows have.
        check_batch({bf16, bf16, 2, 1, 64, 16}, {0.125f},
                    {{37, 1}, {520, 1}, {1, 1}, {9, 1}, {9, 1}, {70, 1}, {9, 1}, {9, 1}, {129, 1}});
    });
}

TEST_CASE("cuda: attention of prompts, chunks and single queries together") {
    under_all_schedules([] {
        check_batch({bf16, bf16, 4, 2, 64, 16}, {0.125f}, {{70, 70}, {90, 1}, {130, 20}, {5, 0}});
        check_batch({f32, bf16, 4, 2, 64, 16}, {0.125f}, {{70, 70}, {90, 1}, {130, 20}});
    });
}

TEST_CASE("cuda: attention in every type and head size") {
    for (const DType activation : testing::kFloatTypes) {
        for (const DType stored : testing::kFloatTypes)
            check_batch({activation, stored, 2, 1, 32, 8}, {0.2f}, {{19, 19}});
    }
    for (const int64_t head_dim : {16, 72, 96, 128, 200, 256}) {
        check_batch({bf16, bf16, 3, 1, head_dim, 1}, {0.1f}, {{67, 2}, {40, 40}});
        check_batch({f16, f16, 3, 1, head_dim, 256}, {0.1f}, {{67, 1}, {40, 1}});
        check_batch({f32, f32, 3, 1, head_dim, 2}, {0.1f}, {{67, 2}, {40, 40}});
    }
}

TEST_CASE("cuda: attention over keys that are values too") {
    const auto latent = [](int64_t value_dim) {
        ops::PagedAttentionOptions options = {0.1f};
        options.scales.key = 0.37f;
        options.value_dim = value_dim;
        return options;
    };
    under_all_schedules([&] {
        check_batch({f32, f32, 5, 1, 40, 8}, latent(24), {{37, 1}, {300, 1}, {70, 70}, {5, 0}});
    });
    for (const DType stored : {f32, bf16, f16, f8, i8}) {
        check_batch({f32, stored, 3, 1, 24, 4}, latent(16), {{130, 20}, {9, 9}});
        check_batch({bf16, stored, 18, 1, 576, 16}, latent(512), {{67, 2}, {300, 1}});
    }
    check_batch({f16, f16, 2, 1, 640, 2}, latent(260), {{20, 20}});
}

TEST_CASE("cuda: attention over storage of one byte a value") {
    under_all_schedules([] {
        for (const DType stored : {f8, i8}) {
            check_batch({bf16, stored, 8, 2, 64, 16}, scaled({0.125f}),
                        {{37, 1}, {300, 1}, {1, 1}});
            check_batch({f16, stored, 4, 2, 128, 4}, scaled({0.09f}),
                        {{70, 70}, {130, 20}, {5, 0}});
            check_batch({f32, stored, 4, 2, 64, 16}, scaled({0.125f}), {{90, 9}, {300, 1}});
        }
    });
    for (const DType stored : {f8, i8}) {
        for (const DType activation : {f32, bf16, f16}) {
            for (const int64_t head_dim : {16, 72, 96, 200, 256}) {
                check_batch({activation, stored, 3, 1, head_dim, 2}, scaled({0.1f}),
                            {{67, 2}, {40, 40}});
            }
        }
        check_batch({bf16, stored, 4, 2, 64, 16}, scaled({0.125f, 33}), {{90, 90}, {600, 1}});
        check_batch({bf16, stored, 4, 2, 64, 16}, scaled({0.5f, 0, 2.5f}), {{80, 80}, {300, 1}});
        check_batch({f32, stored, 4, 2, 64, 16}, scaled({0.5f, 0, 2.5f}), {{80, 80}, {300, 1}});
    }
}

#ifndef NVLLM_ON_DEVICE
TEST_CASE("cuda: attention where shared memory holds one tile of keys at a time") {
    for (auto schedule : all_schedules()) {
        schedule.max_shared_bytes = 99 << 10;  // the least of devices from sm_80 on
        const gpu::emulation::ScopedSettings scoped(schedule);
        check_batch({bf16, bf16, 4, 2, 128, 16}, {0.09f}, {{70, 70}, {90, 1}, {300, 20}, {5, 0}});
        check_batch({f16, f16, 2, 1, 256, 16}, {0.07f}, {{70, 70}, {300, 3}});
        check_batch({bf16, i8, 2, 1, 256, 16}, scaled({0.07f}), {{70, 70}, {300, 3}});
    }
}
#endif

TEST_CASE("cuda: attention within chunks") {
    for (const int64_t chunk : {1, 13, 64, 100}) {
        CAPTURE(chunk);
        ops::PagedAttentionOptions options{0.125f};
        options.chunk = chunk;
        check_batch({bf16, bf16, 4, 2, 64, 16}, options, {{90, 90}, {600, 1}, {130, 20}});
        check_batch({f32, f32, 4, 2, 64, 16}, options, {{90, 90}, {600, 1}, {130, 20}});
    }
}

TEST_CASE("cuda: sinks join the denominator, whoever folds the splits") {
    std::vector<float> sinks{-3.0f, 0.5f, 2.0f, 40.0f};
    for (const DType dtype : {bf16, f32}) {
        for (const DType stored : {dtype, i8}) {
            ops::PagedAttentionOptions options{0.125f};
            options.sinks = testing::view(sinks, {4});
            check_batch({dtype, stored, 4, 2, 64, 16}, options, {{90, 90}, {600, 1}, {12, 3}});
            options.soft_cap = 3.0f;
            check_batch({dtype, stored, 4, 2, 64, 16}, options, {{20, 20}, {300, 1}});
        }
    }
}

TEST_CASE("cuda: a bias of positions joins the scores of each head") {
    for (const DType dtype : {bf16, f32}) {
        for (const DType stored : {dtype, i8}) {
            const Shape shape{dtype, stored, 4, 2, 64, 16};
            std::vector<float> bias = testing::Random(3).values(4 * 41, 3.0f);
            ops::PagedAttentionOptions options = scaled({0.125f, 0, 0, false});
            options.position_bias = testing::view(bias, {4, 41});
            check_batch(shape, options, {{90, 90}, {600, 1}, {12, 3}});
            options.causal = true;
            options.window = 33;
            options.soft_cap = 3.0f;
            check_batch(shape, options, {{20, 20}, {300, 1}});
        }
    }
}

TEST_CASE("cuda: trees of drafts: rows see the text, their ancestors and themselves") {
    for (const DType dtype : {bf16, f32}) {
        for (const DType stored : {dtype, f8}) {
            // Of 20 the first row is the last position of a tile, which not all others see.
            for (const auto& [rows, length] :
                 {std::pair<int64_t, int64_t>{5, 330}, {20, 339}, {64, 330}}) {
                const Shape shape{dtype, stored, 4, 2, 64, 16};
                const Text text(shape, length, 3), other(shape, 90, 5);
                ops::PagedAttentionOptions options{0.125f};
                const testing::Tree tree = testing::Tree::random(rows, 7);
                std::vector<int32_t> parents = testing::Tree::text(2).parents;
                parents.insert(parents.end(), tree.parents.begin(), tree.parents.end());
                options.parents = testing::view(parents, {rows + 2});
                const std::vector<Part> parts{{&other, 90, 2}, {&text, length, rows}};
                Batch batch(shape, options, parts);
                batch.run();
                CHECK(matches_reference(shape, options, parts[0], batch.rows(0)));
                CHECK(matches_reference(shape, options, parts[1], batch.rows(1), tree));
                const std::vector<int32_t> straight = testing::Tree::text(rows).parents;
                std::copy(straight.begin(), straight.end(), parents.begin() + 2);
                batch.run();
                Batch plain(shape, {0.125f}, parts);
                plain.run();
                CHECK(testing::same_bits(batch.rows(1), plain.rows(1)));
            }
        }
    }
}

TEST_CASE("cuda: windows, soft caps, both directions, many heads to one") {
    for (const DType dtype : {bf16, f32}) {
        const Shape shape{dtype, dtype, 4, 2, 64, 16};
        check_batch(shape, {0.125f, 33}, {{90, 90}, {600, 1}, {12, 3}});
        check_batch(shape, {0.125f, 300}, {{600, 1}, {601, 2}});
        check_batch(shape, {0.5f, 0, 2.5f}, {{80, 80}, {300, 1}});
        check_batch(shape, {0.125f, 0, 0, false}, {{80, 80}, {9, 4}, {270, 3}});
        check_batch(shape, {0.125f, 33, 0, false}, {{90, 90}, {600, 130}, {12, 3}});
        check_batch({dtype, dtype, 24, 1, 32, 16}, {0.125f}, {{40, 1}, {30, 7}});
    }
}

TEST_CASE("cuda: a query has the same bits however its text comes") {
    for (const Shape& shape : {Shape{bf16, bf16, 2, 1, 32, 16}, Shape{f32, f32, 2, 1, 16, 16},
                               Shape{f16, f8, 2, 1, 32, 16}, Shape{bf16, i8, 2, 1, 48, 16}}) {
        for (const ops::PagedAttentionOptions& options :
             {scaled({0.125f}), scaled({0.125f, 280})}) {
            const int64_t length = 530;
            const Text text(shape, length, 1), other(shape, 90, 5);
            Batch whole(shape, options, {{&text, length, length}});
            whole.run();
            const std::vector<float> all = whole.rows(0);
            const auto same = [&](const Batch& batch, size_t sequence, int64_t last) {
                const std::vector<float> rows = batch.rows(sequence);
                const auto width = shape.heads * shape.head_dim;
                const auto end = all.begin() + last * width;
                return testing::same_bits(
                    rows, std::vector<float>(end - static_cast<int64_t>(rows.size()), end));
            };
            for (const int64_t position : {1, 64, 65, 257, 512, 530}) {
                Batch single(shape, options, {{&other, 7, 1}, {&text, position, 1}}, 9);
                single.run();
                CHECK(same(single, 1, position));
            }
            Shape other_blocks = shape;
            other_blocks.block_size = 64;
            Batch chunk(other_blocks, options, {{&text, 515, 77}, {&other, 90, 90}});
            chunk.run();
            CHECK(same(chunk, 0, 515));
        }
    }
}

TEST_CASE("cuda: rows that only fill up a batch become zero") {
    for (const DType dtype : {bf16, f32}) {
        const Shape shape{dtype, dtype, 2, 1, 16, 4};
        const Text text(shape, 300, 1);
        Batch batch(shape, {0.25f}, {{&text, 300, 1}, {&text, 0, 0}});
        batch.run();
        CHECK(matches_reference(shape, {0.25f}, {&text, 300, 1}, batch.rows(0)));
        testing::Machine machine(1);
        Buffer queries(dtype, testing::Random(3).values(2 * 32)), out(dtype, 2 * 32);
        for (int64_t i = 0; i < out.size(); ++i) out.set(i, 7.0f);
        Buffer cache(dtype, std::vector<float>(100 * 4 * 16, std::nanf("")));
        std::vector<int32_t> starts{0, 1, 2}, lengths{0, 0}, tables(2 * 100, -1);
        cuda::paged_attention(machine.context(), queries.view({2, 2, 16}),
                              cache.view({100, 1, 4, 16}), cache.view({100, 1, 4, 16}),
                              testing::view(starts, {3}), testing::view(lengths, {2}),
                              testing::view(tables, {2, 100}), {0.25f}, out.view({2, 2, 16}));
        for (int64_t i = 0; i < out.size(); ++i) CHECK(out[i] == 0.0f);
    }
}

TEST_CASE("cuda: scratch holds the splits of contexts that are powers of two") {
    // 131,072 positions in splits of 256, 16 sequences with 32 heads of 128 values: values, a
    // maximum and a sum for each.
    constexpr size_t kBytes = size_t{131072} / 256 * 16 * 32 * (128 + 2) * sizeof(float);
    const auto taken = [](int64_t tokens) {
        const DryRun dry({}, DType::bf16, 1);
        const TensorView rows = dry.view(DType::bf16, {tokens, 32, 128});
        const TensorView cache = dry.view(DType::bf16, {1, 32, 16, 128});
        cuda::paged_attention(dry.context(), rows, cache, cache, dry.view(DType::i32, {tokens + 1}),
                              dry.view(DType::i32, {tokens}), dry.view(DType::i32, {tokens, 1}), {},
                              rows);
        return dry.scratch_bytes();
    };
    CHECK(taken(16) >= kBytes);
    CHECK(taken(1024) < 2 * kBytes);
}
