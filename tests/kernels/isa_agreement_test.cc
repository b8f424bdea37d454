// Every instruction set agrees with double precision, within bounds that follow from the order of
// the sums, in products and attention of random shapes from 1 to 300.
#include <algorithm>
#include <cmath>

#include "agreement.h"
#include "attention_batch.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/matmul.h"
#include "reference.h"
#include "stored_kv.h"
#include "tests/sanitized.h"

using namespace nvllm;
using namespace testing;

namespace {

struct Product {
    int64_t tokens, in, out;
    DType weight_type, compute_type;
    bool accumulates, has_bias;
    LooseRows x, y;
    LooseVector weight, bias;

    Product(Random& random, DType weight_dtype, DType compute_dtype)
        : tokens(random_size(random)),
          in(random_size(random)),
          out(random_size(random)),
          weight_type(weight_dtype),
          compute_type(compute_dtype),
          accumulates(random.below(2) == 1),
          has_bias(random.below(2) == 1),
          x(random, tokens, in),
          y(random, tokens, out),
          weight(weight_dtype, random, out * in),
          bias(weight_dtype, random, out) {}

    void run(const Context& context, LooseRows& result) {
        ops::matmul(context, x.view(), weight.matrix(out, in),
                    has_bias ? ConstTensorView(bias.view()) : ConstTensorView(), compute_type,
                    accumulates ? ops::MatmulOutput::accumulate : ops::MatmulOutput::overwrite,
                    result.view());
    }

    // x as it is multiplied.
    reference::Values factors() const {
        Buffer rounded(compute_type, 1);
        reference::Values values;
        for (int64_t t = 0; t < tokens; ++t) {
            for (int64_t k = 0; k < in; ++k) {
                rounded.set(0, x.at(t, k));
                values.push_back(rounded[0]);
            }
        }
        return values;
    }

    // Bias and what was there before are one more rounding each.
    Expectation expected() const {
        const reference::Values left = factors(), right = weight.values();
        const double units = (roundings_in_lanes(in) + 2) * kUnit * kSlack;
        return testing::expect_each(tokens, out, [&](int64_t t, int64_t o) -> Bounded {
            reference::Dot dot;
            for (int64_t k = 0; k < in; ++k) {
                dot.add(left[static_cast<size_t>(t * in + k)],
                        right[static_cast<size_t>(o * in + k)]);
            }
            if (accumulates) dot.add(1, y.at(t, o));
            if (has_bias) dot.add(1, bias.at(o));
            return {dot.sum, dot.magnitude * units};
        });
    }
};

// Of one query: the largest sum of magnitudes in a score, on which the scores' errors depend.
template <typename Key>
double largest_score(const reference::Values& query, Key key, int64_t first, int64_t end,
                     double scale) {
    double most = 0;
    for (int64_t p = first; p < end; ++p) {
        reference::Dot dot;
        for (size_t d = 0; d < query.size(); ++d)
            dot.add(query[d], key(p, static_cast<int64_t>(d)));
        most = std::max(most, dot.magnitude * scale);
    }
    return most;
}

// Units by which a probability before division, or its share of the denominator, may be off.
double units_of_probability(double score, int64_t head_dim, int64_t positions,
                            const ops::PagedAttentionOptions& options) {
    const int64_t num_tiles = positions / ops::kAttentionTile + 2;
    const auto tiles = static_cast<double>(num_tiles);
    // Products, additions and two scales, all of them absolute errors of the exponent.
    double exponent = static_cast<double>(head_dim + 3) * score;
    if (options.soft_cap > 0) exponent += score + (kTanhUnits + 1) * options.soft_cap;
    // One exponential of its own, and one correction for every tile that follows; the differences
    // they are taken of are up to twice the score.
    const double exponentials = (1 + tiles) * (2 * score + kExpUnits + 1);
    const double additions = static_cast<double>(positions) + tiles + 8;
    return exponent + exponentials + additions;
}

struct AttentionProblem {
    AttentionShape shape;
    int64_t block_size, length, count;
    ops::PagedAttentionOptions options;
    AttentionText text, other;

    AttentionProblem(Random& random, DType dtype)
        : shape(random_shape(random, dtype)),
          block_size(1 + random.below(70)),
          length(random_size(random)),
          count(std::min<int64_t>(length, random.below(2) == 0 ? 1 : 1 + random.below(40))),
          options(random_options(random, shape.head_dim)),
          text(shape, length, random.next()),
          other(shape, 9, random.next()) {}

    static AttentionShape random_shape(Random& random, DType dtype) {
        const int64_t kv_heads = 1 + random.below(3), group = 1 + random.below(6);
        return {kv_heads * group, kv_heads, std::min<int64_t>(160, random_size(random)), dtype};
    }
    static ops::PagedAttentionOptions random_options(Random& random, int64_t head_dim) {
        ops::PagedAttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
        const int64_t form = random.below(5);
        if (form == 1 || form == 4) options.causal = false;
        if (form >= 2) options.window = random_size(random);
        if (random.below(3) == 0) options.soft_cap = 2.0f;
        options.scales.key = 0.25f + random.uniform() / 8;
        options.scales.value = 0.01f;
        return options;
    }

    // The rows of `text`, after those of another sequence.
    std::vector<float> run(const Context& context) const {
        testing::AttentionBatch batch(context, shape, block_size, options,
                                      {{&other, 9, 2}, {&text, length, count}});
        const std::vector<float>& out = batch.run(context);
        return {out.begin() + 2 * shape.width(), out.end()};
    }

    void expect_head(const reference::Values& keys, const reference::Values& values,
                     int64_t position, int64_t head, Expectation& expected) const {
        const int64_t kv_head = head / (shape.heads / shape.kv_heads);
        const auto at = [&](int64_t p, int64_t d) {
            return static_cast<size_t>((p * shape.kv_heads + kv_head) * shape.head_dim + d);
        };
        const auto key = [&](int64_t p, int64_t d) { return keys[at(p, d)]; };
        const auto row = text.queries.begin() + position * shape.width() + head * shape.head_dim;
        const reference::Values query =
            testing::as_operands(shape.dtype, {row, row + shape.head_dim}, shape.head_dim);
        const auto [first, end] = reference::seen_from(options, position, length);
        const reference::Values out = reference::attention(
            query, key, [&](int64_t p, int64_t d) { return values[at(p, d)]; }, first, end,
            options);
        const reference::Values magnitude = reference::attention(
            query, key, [&](int64_t p, int64_t d) { return std::abs(values[at(p, d)]); }, first,
            end, options);
        const double score = largest_score(query, key, first, end, options.scale);
        // Once for the sum of values and once for the denominator, then the quotient and a scale.
        const double units = 2 * units_of_probability(score, shape.head_dim, end - first, options) +
                             4 + testing::probability_rounding(shape.dtype, shape.head_dim) / kUnit;
        for (size_t d = 0; d < out.size(); ++d) {
            expected.push_back({out[d], magnitude[d] * units * kUnit * kSlack});
        }
    }

    Expectation expected() const {
        const reference::Values keys =
            testing::as_stored(shape.dtype, text.keys, shape.head_dim, options.scales.key);
        const reference::Values values =
            testing::as_stored(shape.dtype, text.values, shape.head_dim, options.scales.value);
        Expectation result;
        for (int64_t p = length - count; p < length; ++p) {
            for (int64_t h = 0; h < shape.heads; ++h) expect_head(keys, values, p, h, result);
        }
        return result;
    }
};

}  // namespace

TEST_CASE("instruction sets agree: products of all types") {
    testing::Machine machine;
    Random random(101);
    for (const DType weight_type : testing::kFloatTypes) {
        for (const DType compute_type : testing::kFloatTypes) {
            for (int i = 0; i < 8; ++i) {
                Product product(random, weight_type, compute_type);
                CAPTURE(product.tokens);
                CAPTURE(product.in);
                CAPTURE(product.out);
                testing::check_all_agree(product.y, product.expected(), [&](LooseRows& result) {
                    product.run(machine.context(), result);
                });
            }
        }
    }
}

TEST_CASE("instruction sets agree: attention of all types and forms") {
    testing::Machine machine;
    Random random(102);
    for (const DType dtype : testing::kKvTypes) {
        for (int i = 0; i < (test::kSanitized ? 6 : 20); ++i) {
            const AttentionProblem problem(random, dtype);
            CAPTURE(problem.shape.head_dim);
            CAPTURE(problem.length);
            CAPTURE(problem.options.window);
            testing::for_each_isa([&](cpu::Isa isa) {
                const Expectation expected = problem.expected();
                const std::vector<float> out = problem.run(machine.context());
                REQUIRE(out.size() == expected.size());
                bool good = true;
                for (size_t at = 0; at < out.size(); ++at) {
                    good = good && testing::is_within(out[at], expected[at]);
                }
                INFO(std::string(cpu::isa_name(isa)));
                CHECK(good);
            });
        }
    }
}
