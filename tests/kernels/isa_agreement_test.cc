// Every instruction set agrees with double precision within bounds that follow from the order of
// the sums, on random shapes from 1 to 300: tails, gaps between rows, memory off the borders of
// vectors.
//
// A sum of n terms, each rounded in at most m places on its way into it, is off by at most m units
// of roundoff of the sum of the terms' magnitudes (Higham 2002, 3.1 and 4.2). Second-order terms
// are below a thousandth of that and covered by kSlack.
#include "agreement.h"

#include <array>

#include "attention_batch.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "reference.h"

using namespace nvllm;
using testing::AttentionShape;
using testing::AttentionText;
using testing::Bounded;
using testing::Buffer;
using testing::Expectation;
using testing::kUnit;
using testing::LooseRows;
using testing::LooseVector;
using testing::Random;
using testing::random_size;

namespace {

constexpr double kSlack = 1.01;
constexpr double kFewestLanes = 4;  // the scalar kernels': the longest chains of additions
// Of exp(), in units of roundoff (2e-7, kernels/cpu/vector_math.h).
constexpr double kExpUnits = 4;
// Of tanh(), likewise (tests/kernels/elementwise_test.cc).
constexpr double kTanhUnits = 16;

// Most roundings of a term of a sum over `count` in lanes: its product, its chain, the tree over
// the lanes (at most sixteen).
double roundings_in_lanes(int64_t count) {
    return 1 + std::ceil(static_cast<double>(count) / kFewestLanes) + 4;
}

reference::Values row_of(const LooseRows& rows, int64_t row) {
    reference::Values values;
    for (int64_t i = 0; i < rows.columns(); ++i) values.push_back(rows.at(row, i));
    return values;
}

reference::Values all_of(const LooseVector& vector, int64_t count) {
    reference::Values values;
    for (int64_t i = 0; i < count; ++i) values.push_back(vector.at(i));
    return values;
}

// --- Products ---

struct Product {
    int64_t tokens, in, out;
    DType weight_type, product_type;
    bool accumulates, has_bias;
    LooseRows x, y;
    LooseVector weight, bias;

    Product(Random& random, DType weight_dtype, DType product_dtype)
        : tokens(random_size(random)),
          in(random_size(random)),
          out(random_size(random)),
          weight_type(weight_dtype),
          product_type(product_dtype),
          accumulates(random.below(2) == 1),
          has_bias(random.below(2) == 1),
          x(random, tokens, in),
          y(random, tokens, out),
          weight(weight_dtype, random, out * in),
          bias(weight_dtype, random, out) {}

    void run(const Context& context, LooseRows& result) {
        ops::matmul(context, x.view(), weight.matrix(out, in),
                    has_bias ? ConstTensorView(bias.view()) : ConstTensorView(), product_type,
                    accumulates ? ops::MatmulOutput::accumulate : ops::MatmulOutput::overwrite,
                    result.view());
    }

    // x as it is multiplied.
    reference::Values factors() const {
        Buffer rounded(product_type, 1);
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
        const reference::Values left = factors(), right = all_of(weight, out * in);
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

// --- Attention ---

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
    const auto tiles = static_cast<double>(positions / ops::kAttentionTile + 2);
    // Products, additions and the scale, all of them absolute errors of the exponent.
    double exponent = static_cast<double>(head_dim + 2) * score;
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
        const int64_t form = random.below(4);
        if (form == 1) options.causal = false;
        if (form >= 2) options.window = random_size(random);
        if (random.below(3) == 0) options.soft_cap = 2.0f;
        return options;
    }

    // The rows of `text`, after those of another sequence.
    std::vector<float> run(const Context& context) const {
        testing::AttentionBatch batch(context, shape, block_size, options,
                                      {{&other, 9, 2}, {&text, length, count}});
        const std::vector<float>& out = batch.run(context);
        return {out.begin() + 2 * shape.width(), out.end()};
    }

    void expect_head(const Buffer& keys, const Buffer& values, int64_t position, int64_t head,
                     Expectation& expected) const {
        const int64_t kv_head = head / (shape.heads / shape.kv_heads);
        const auto at = [&](int64_t p, int64_t d) {
            return (p * shape.kv_heads + kv_head) * shape.head_dim + d;
        };
        const auto key = [&](int64_t p, int64_t d) { return keys[at(p, d)]; };
        const auto row = text.queries.begin() + position * shape.width() + head * shape.head_dim;
        const reference::Values query(row, row + shape.head_dim);
        const int64_t end = options.causal ? position + 1 : length;
        const int64_t first =
            options.window > 0 ? std::max<int64_t>(0, position + 1 - options.window) : 0;
        const reference::Values out = reference::attention(
            query, key, [&](int64_t p, int64_t d) { return values[at(p, d)]; }, first, end,
            options);
        const reference::Values magnitude = reference::attention(
            query, key, [&](int64_t p, int64_t d) { return std::abs(values[at(p, d)]); }, first,
            end, options);
        const double score = largest_score(query, key, first, end, options.scale);
        // Once for the sum of values and once for the denominator, then the quotient.
        const double units =
            2 * units_of_probability(score, shape.head_dim, end - first, options) + 3;
        for (size_t d = 0; d < out.size(); ++d) {
            expected.push_back({out[d], magnitude[d] * units * kUnit * kSlack});
        }
    }

    Expectation expected() const {
        const Buffer keys(shape.dtype, text.keys), values(shape.dtype, text.values);
        Expectation result;
        for (int64_t p = length - count; p < length; ++p) {
            for (int64_t h = 0; h < shape.heads; ++h) expect_head(keys, values, p, h, result);
        }
        return result;
    }
};

// --- Norms ---

constexpr float kEpsilon = 1e-5f;

// The squares are all positive, so their sum is right to as many units as it has roundings, and its
// root to half of that. Then: mean, epsilon, root, reciprocal, two products and the gain.
Bounded rms_bound(double value, int64_t hidden) {
    const double units = roundings_in_lanes(hidden) / 2 + 7;
    return {value, std::abs(value) * units * kUnit * kSlack};
}

// What a row of layer_norm shares.
struct Spread {
    double factor;        // one over the standard deviation
    double center_error;  // of the mean, in standard deviations
    double units;         // of the factor

    explicit Spread(const reference::Values& row) {
        const auto count = static_cast<double>(row.size());
        const double roundings = roundings_in_lanes(static_cast<int64_t>(row.size()));
        double mean = 0, magnitude = 0, variance = 0;
        for (const double x : row) mean += x / count;
        for (const double x : row) magnitude += std::abs(x) / count;
        for (const double x : row) variance += (x - mean) * (x - mean) / count;
        factor = 1 / std::sqrt(variance + static_cast<double>(kEpsilon));
        center_error = magnitude * (roundings + 1) * kUnit * factor;
        // Deviations from a mean that is off by e are off by e and their squares by e² on average.
        units = roundings / 2 + 6 + center_error * center_error / kUnit;
    }
};

Bounded layer_norm_bound(const Spread& spread, double value, double weight, double bias) {
    const double deviation = std::abs(value - bias);
    const double error = std::abs(weight) * spread.center_error +
                         (deviation * (spread.units + 3) + std::abs(value)) * kUnit;
    return {value, error * kSlack};
}

// --- Rows ---

// Units by which an activation may be off, beside a quotient and a product or two. An exponential
// turns the absolute error of its argument into a relative one of the result.
double activation_units(ops::Activation function, double x) {
    switch (function) {
        case ops::Activation::silu:
            return kExpUnits + 4;
        case ops::Activation::gelu:
            // A polynomial of ten coefficients whose error is below 1e-6, and exp(-x²/2).
            return kExpUnits + 16 + x * x;
        case ops::Activation::gelu_tanh: {
            const double argument = 1.5957691216 * (std::abs(x) + 0.044715 * std::abs(x * x * x));
            return kExpUnits + 4 + 5 * argument;
        }
        case ops::Activation::relu:
            return 0;
    }
    return 0;
}

// Below this results leave the normal numbers.
constexpr double kLeast = 1e-37;

constexpr std::array kActivations = {ops::Activation::silu, ops::Activation::gelu,
                                     ops::Activation::gelu_tanh, ops::Activation::relu};

void check_activation(const Context& context, Random& random, ops::Activation function) {
    const int64_t tokens = random_size(random), width = random_size(random);
    CAPTURE(tokens);
    CAPTURE(width);
    LooseRows gate(random, tokens, width, 12.0f), up(random, tokens, width);
    const LooseRows out(random, tokens, width);
    const auto bound = [&](double x, double factor, double more) -> Bounded {
        const double value = reference::activation(function, x) * factor;
        const double units = activation_units(function, x) + more;
        return {value, std::abs(value) * units * kUnit * kSlack + kLeast};
    };
    testing::all_agree(
        out,
        testing::expect_each(tokens, width,
                             [&](int64_t t, int64_t i) { return bound(gate.at(t, i), 1, 0); }),
        [&](LooseRows& result) { ops::activation(context, function, gate.view(), result.view()); });
    testing::all_agree(
        out,
        testing::expect_each(
            tokens, width,
            [&](int64_t t, int64_t i) { return bound(gate.at(t, i), up.at(t, i), 1); }),
        [&](LooseRows& result) {
            ops::gated_activation(context, function, gate.view(), up.view(), result.view());
        });
}

void check_norms(const Context& context, Random& random, DType dtype) {
    const int64_t tokens = random_size(random), hidden = random_size(random);
    CAPTURE(tokens);
    CAPTURE(hidden);
    LooseRows x(random, tokens, hidden, 5.0f);
    const LooseRows out(random, tokens, hidden);
    LooseVector weight(dtype, random, hidden), bias(dtype, random, hidden);
    const reference::Values weights = all_of(weight, hidden), biases = all_of(bias, hidden);
    Expectation rms, layer;
    for (int64_t t = 0; t < tokens; ++t) {
        const reference::Values row = row_of(x, t);
        const Spread spread(row);
        for (const double value : reference::rms_norm(row, weights, kEpsilon, 1.0)) {
            rms.push_back(rms_bound(value, hidden));
        }
        const reference::Values values = reference::layer_norm(row, weights, biases, kEpsilon);
        for (size_t i = 0; i < values.size(); ++i) {
            layer.push_back(layer_norm_bound(spread, values[i], weights[i], biases[i]));
        }
    }
    testing::all_agree(out, rms, [&](LooseRows& result) {
        ops::rms_norm(context, x.view(), weight.view(), {kEpsilon, 1.0f}, result.view());
    });
    testing::all_agree(out, layer, [&](LooseRows& result) {
        ops::layer_norm(context, x.view(), weight.view(), bias.view(), kEpsilon, result.view());
    });
}

// Rounded products and their rounded sum: no instruction set may differ by a bit.
void check_rope(const Context& context, Random& random) {
    const int64_t tokens = random_size(random), half = 1 + random_size(random) / 2;
    const int64_t heads = 1 + random.below(4), head_dim = 2 * half + random.below(9);
    CAPTURE(half);
    CAPTURE(head_dim);
    LooseVector cosines(DType::f32, random, tokens * half),
        sines(DType::f32, random, tokens * half);
    const LooseRows x(random, tokens, heads * head_dim);
    const Expectation expected =
        testing::expect_each(tokens, heads * head_dim, [&](int64_t t, int64_t column) -> Bounded {
            const int64_t i = column % head_dim;
            if (i >= 2 * half) return {x.at(t, column), 0};
            const float cosine = cosines.at(t * half + i % half);
            const float sine = sines.at(t * half + i % half);
            const float other = x.at(t, i < half ? column + half : column - half);
            const float kept = x.at(t, column) * cosine, turned = other * sine;
            return {i < half ? kept - turned : kept + turned, 0};
        });
    testing::all_agree(x, expected, [&](LooseRows& result) {
        ops::rope(context, cosines.matrix(tokens, half), sines.matrix(tokens, half),
                  result.view().split_last(heads));
    });
}

void check_sum_and_cap(const Context& context, Random& random) {
    const int64_t tokens = random_size(random), width = random_size(random);
    CAPTURE(tokens);
    CAPTURE(width);
    LooseRows x(random, tokens, width, 90.0f);
    const LooseRows y(random, tokens, width, 90.0f);
    testing::all_agree(
        y,
        testing::expect_each(tokens, width,
                             [&](int64_t t, int64_t i) -> Bounded {
                                 return {y.at(t, i) + x.at(t, i), 0};  // one rounding, of float32
                             }),
        [&](LooseRows& result) { ops::add(context, x.view(), result.view()); });
    testing::all_agree(
        y,
        testing::expect_each(tokens, width,
                             [&](int64_t t, int64_t i) -> Bounded {
                                 const double value = 30 * std::tanh(y.at(t, i) / 30.0);
                                 return {value, std::abs(value) * (kTanhUnits + 2) * kUnit};
                             }),
        [&](LooseRows& result) { ops::soft_cap(context, 30.0f, result.view()); });
}

// Rounding to nearest even and one product: exact.
void check_embedding(const Context& context, Random& random, DType dtype) {
    const int64_t tokens = random_size(random), hidden = random_size(random), rows = 7;
    CAPTURE(hidden);
    LooseVector table(dtype, random, rows * hidden);
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(random.below(rows)));
    std::vector<float> out(static_cast<size_t>(tokens * hidden));
    testing::for_each_isa([&](cpu::Isa isa) {
        ops::embedding(context, table.matrix(rows, hidden), testing::view(ids, {tokens}), 1.7f,
                       testing::view(out, {tokens, hidden}));
        bool same = true;
        for (int64_t t = 0; t < tokens; ++t) {
            for (int64_t i = 0; i < hidden; ++i) {
                same = same && out[static_cast<size_t>(t * hidden + i)] ==
                                   table.at(ids[static_cast<size_t>(t)] * hidden + i) * 1.7f;
            }
        }
        INFO(std::string(cpu::isa_name(isa)));
        CHECK(same);
    });
}

void check_conversion(const Context& context, Random& random, DType from, DType to) {
    const int64_t count = random_size(random);
    CAPTURE(count);
    LooseVector x(from, random, count, 100.0f);
    Buffer expected(to, count);
    for (int64_t i = 0; i < count; ++i) expected.set(i, x.at(i));
    testing::for_each_isa([&](cpu::Isa isa) {
        // One value more, which nobody may touch.
        Buffer out(to, std::vector<float>(static_cast<size_t>(count + 1), 3.0f));
        ops::convert(context, x.view(), out.view({count + 1}).rows(0, count));
        bool same = out[count] == 3.0f;
        for (int64_t i = 0; i < count; ++i) same = same && out[i] == expected[i];
        INFO(std::string(cpu::isa_name(isa)));
        CHECK(same);
    });
}

}  // namespace

TEST_CASE("instruction sets agree: products of all types") {
    testing::Machine machine;
    Random random(101);
    for (const DType weight_type : testing::kFloatTypes) {
        for (const DType product_type : testing::kFloatTypes) {
            for (int i = 0; i < 8; ++i) {
                Product product(random, weight_type, product_type);
                CAPTURE(product.tokens);
                CAPTURE(product.in);
                CAPTURE(product.out);
                testing::all_agree(product.y, product.expected(), [&](LooseRows& result) {
                    product.run(machine.context(), result);
                });
            }
        }
    }
}

TEST_CASE("instruction sets agree: attention of all types and forms") {
    testing::Machine machine;
    Random random(102);
    for (const DType dtype : testing::kFloatTypes) {
        for (int i = 0; i < 20; ++i) {
            const AttentionProblem problem(random, dtype);
            CAPTURE(problem.shape.head_dim);
            CAPTURE(problem.length);
            CAPTURE(problem.options.window);
            const Expectation expected = problem.expected();
            testing::for_each_isa([&](cpu::Isa isa) {
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

TEST_CASE("instruction sets agree: norms") {
    testing::Machine machine;
    Random random(103);
    for (const DType dtype : testing::kFloatTypes) {
        for (int i = 0; i < 10; ++i) check_norms(machine.context(), random, dtype);
    }
}

TEST_CASE("instruction sets agree: activations") {
    testing::Machine machine;
    Random random(104);
    for (const ops::Activation function : kActivations) {
        for (int i = 0; i < 5; ++i) check_activation(machine.context(), random, function);
    }
}

TEST_CASE("instruction sets agree: rotations, sums, caps") {
    testing::Machine machine;
    Random random(105);
    for (int i = 0; i < 12; ++i) {
        check_rope(machine.context(), random);
        check_sum_and_cap(machine.context(), random);
    }
}

TEST_CASE("instruction sets agree: tables and conversions") {
    testing::Machine machine;
    Random random(106);
    for (const DType from : testing::kFloatTypes) {
        for (int i = 0; i < 6; ++i) check_embedding(machine.context(), random, from);
        for (const DType to : testing::kFloatTypes) {
            for (int i = 0; i < 6; ++i) check_conversion(machine.context(), random, from, to);
        }
    }
}
