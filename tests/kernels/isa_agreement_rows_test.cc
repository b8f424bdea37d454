// Every instruction set agrees with double precision in the ops on rows, of random shapes from 1 to
// 300: to the bit where each value is rounded once, else within bounds that follow from the
// roundings.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "agreement.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "reference.h"
#include "stored_kv.h"

using namespace nvllm;
using namespace testing;

namespace {

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

// Units by which an activation may be off, beside a quotient and a product or two. An exponential
// turns the absolute error of its argument into a relative one of the result.
double activation_units(ops::Activation function, double x) {
    switch (function) {
        case ops::Activation::silu:
        case ops::Activation::sigmoid:
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
constexpr double kMin = 1e-37;

constexpr std::array kActivations = {ops::Activation::silu, ops::Activation::gelu,
                                     ops::Activation::gelu_tanh, ops::Activation::relu,
                                     ops::Activation::sigmoid};

void check_activation(const Context& context, Random& random, ops::Activation function) {
    const int64_t tokens = random_size(random), width = random_size(random);
    CAPTURE(tokens);
    CAPTURE(width);
    LooseRows gate(random, tokens, width, 12.0f), up(random, tokens, width);
    const LooseRows out(random, tokens, width);
    const auto bound = [&](double x, double factor, double more) -> Bounded {
        const double value = reference::activation(function, x) * factor;
        const double units = activation_units(function, x) + more;
        return {value, std::abs(value) * units * kUnit * kSlack + kMin};
    };
    testing::check_all_agree(
        out,
        testing::expect_each(tokens, width,
                             [&](int64_t t, int64_t i) { return bound(gate.at(t, i), 1, 0); }),
        [&](LooseRows& result) { ops::activation(context, function, gate.view(), result.view()); });
    testing::check_all_agree(
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
    const reference::Values weights = weight.values(), biases = bias.values();
    Expectation rms, layer;
    for (int64_t t = 0; t < tokens; ++t) {
        const reference::Values row = x.row(t);
        const Spread spread(row);
        for (const double value : reference::rms_norm(row, weights, kEpsilon, 1.0)) {
            rms.push_back(rms_bound(value, hidden));
        }
        const reference::Values values = reference::layer_norm(row, weights, biases, kEpsilon);
        for (size_t i = 0; i < values.size(); ++i) {
            layer.push_back(layer_norm_bound(spread, values[i], weights[i], biases[i]));
        }
    }
    testing::check_all_agree(out, rms, [&](LooseRows& result) {
        ops::rms_norm(context, x.view(), weight.view(), {kEpsilon, 1.0f}, result.view());
    });
    testing::check_all_agree(out, layer, [&](LooseRows& result) {
        ops::layer_norm(context, x.view(), weight.view(), bias.view(), kEpsilon, result.view());
    });
}

// Rounded products and their rounded sum: no instruction set may differ by a bit.
void check_rope(const Context& context, Random& random, ops::RopePairs pairs) {
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
            const bool interleaved = pairs == ops::RopePairs::interleaved;
            const int64_t pair = interleaved ? i / 2 : i % half;
            const int64_t distance = interleaved ? 1 : half;
            const bool first = interleaved ? i % 2 == 0 : i < half;
            const float cosine = cosines.at(t * half + pair);
            const float sine = sines.at(t * half + pair);
            const float other = x.at(t, first ? column + distance : column - distance);
            const float kept = x.at(t, column) * cosine, turned = other * sine;
            return {first ? kept - turned : kept + turned, 0};
        });
    testing::check_all_agree(x, expected, [&](LooseRows& result) {
        ops::rope(context, cosines.matrix(tokens, half), sines.matrix(tokens, half), pairs,
                  result.view().split_last(heads));
    });
}

void check_sum_and_cap(const Context& context, Random& random) {
    const int64_t tokens = random_size(random), width = random_size(random);
    CAPTURE(tokens);
    CAPTURE(width);
    LooseRows x(random, tokens, width, 90.0f);
    const LooseRows y(random, tokens, width, 90.0f);
    testing::check_all_agree(
        y,
        testing::expect_each(tokens, width,
                             [&](int64_t t, int64_t i) -> Bounded {
                                 return {y.at(t, i) + x.at(t, i), 0};  // one rounding, of float32
                             }),
        [&](LooseRows& result) { ops::add(context, x.view(), result.view()); });
    testing::check_all_agree(
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
    testing::for_each_isa([&](cpu::Isa isa) {
        std::vector<float> out(static_cast<size_t>(tokens * hidden), std::nanf(""));
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

// Side by side, rising from anywhere, or falling from the last one.
std::vector<int64_t> random_slots(Random& random, int64_t tokens, int64_t there) {
    const bool rise = random.below(2) == 0;
    const int64_t first = rise ? random.below(there - tokens + 1) : there - 1;
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < tokens; ++t) slots.push_back(rise ? first + t : first - t);
    return slots;
}

// Storage for the keys and values of a step: every slot it writes, and no other.
void check_write_kv(const Context& context, Random& random, DType dtype) {
    const int64_t tokens = 1 + random.below(60), heads = 1 + random.below(4);
    const int64_t head_dim = random_size(random), block_size = 1 + random.below(40);
    const int64_t blocks = 2 + tokens / block_size, count = blocks * heads * head_dim * block_size;
    CAPTURE(head_dim);
    CAPTURE(block_size);
    LooseRows keys(random, tokens, heads * head_dim), values(random, tokens, heads * head_dim);
    std::vector<int64_t> slots;  // in no order, none twice
    for (int64_t t = 0; t < tokens; ++t) slots.push_back(blocks * block_size - 1 - t);
    std::swap(slots.front(), slots.back());
    Buffer expected_keys(dtype, count), expected_values(dtype, count);
    for (int64_t t = 0; t < tokens; ++t) {
        const int64_t slot = slots[static_cast<size_t>(t)];
        const int64_t offset = slot % block_size;
        for (int64_t i = 0; i < heads * head_dim; ++i) {
            const int64_t head = slot / block_size * heads + i / head_dim, d = i % head_dim;
            expected_keys.set((head * head_dim + d) * block_size + offset, keys.at(t, i));
            expected_values.set((head * block_size + offset) * head_dim + d, values.at(t, i));
        }
    }
    testing::for_each_isa([&](cpu::Isa isa) {
        Buffer key_cache(dtype, count), value_cache(dtype, count);
        ops::write_kv(context, keys.view().split_last(heads), values.view().split_last(heads),
                      testing::view(slots, {tokens}),
                      key_cache.view({blocks, heads, head_dim, block_size}),
                      value_cache.view({blocks, heads, block_size, head_dim}));
        bool same = true;
        for (int64_t i = 0; i < count; ++i) {
            same = same && key_cache[i] == expected_keys[i] && value_cache[i] == expected_values[i];
        }
        INFO(std::string(cpu::isa_name(isa)));
        CHECK(same);
    });
}

// The same in float8 and int8.
void check_write_scaled_kv(const Context& context, Random& random, DType dtype) {
    const int64_t tokens = 1 + random.below(20), heads = 1 + random.below(3);
    const int64_t head_dim = random_size(random), block_size = 1 + random.below(9);
    const int64_t blocks = 2 + tokens / block_size, positions = blocks * heads * block_size;
    LooseRows keys(random, tokens, heads * head_dim, 3.0f);
    LooseRows values(random, tokens, heads * head_dim, 1000.0f);
    std::vector<int64_t> slots = random_slots(random, tokens, blocks * block_size);
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(std::string(cpu::isa_name(isa)));
        Buffer key_cache(dtype, positions * head_dim), value_cache(dtype, positions * head_dim);
        std::vector<float> key_scales(static_cast<size_t>(positions), -1.0f),
            value_scales = key_scales;
        const ops::KvScales scales{0.3f, 7.0f,
                                   testing::view(key_scales, {blocks, heads, block_size}),
                                   testing::view(value_scales, {blocks, heads, block_size})};
        ops::write_kv(context, keys.view().split_last(heads), values.view().split_last(heads),
                      testing::view(slots, {tokens}),
                      key_cache.view({blocks, heads, head_dim, block_size}),
                      value_cache.view({blocks, heads, block_size, head_dim}), scales);
        bool same = true;
        for (int64_t t = 0; t < tokens; ++t) {
            const int64_t slot = slots[static_cast<size_t>(t)], offset = slot % block_size;
            for (int64_t h = 0; h < heads; ++h) {
                const int64_t head = slot / block_size * heads + h;
                const auto place = static_cast<size_t>(head * block_size + offset);
                const auto check = [&](const LooseRows& rows, const Buffer& cache,
                                       float layer_scale, float scale, int64_t first,
                                       int64_t step) {
                    std::vector<float> row;
                    for (int64_t d = 0; d < head_dim; ++d)
                        row.push_back(rows.at(t, h * head_dim + d));
                    const std::vector<double> wanted =
                        testing::as_stored(dtype, row, head_dim, layer_scale);
                    for (int64_t d = 0; d < head_dim; ++d) {
                        same = same && double{cache[first + d * step]} * scale ==
                                           wanted[static_cast<size_t>(d)];
                    }
                };
                const bool own = dtype == DType::i8;
                check(keys, key_cache, 0.3f, own ? key_scales[place] : 0.3f,
                      head * head_dim * block_size + offset, block_size);
                check(values, value_cache, 7.0f, own ? value_scales[place] : 7.0f,
                      (head * block_size + offset) * head_dim, 1);
            }
        }
        CHECK(same);
        const auto written = static_cast<int64_t>(
            std::ranges::count_if(key_scales, [](float scale) { return scale != -1.0f; }));
        CHECK(written == (dtype == DType::i8 ? tokens * heads : 0));
    });
}

void check_conversion(const Context& context, Random& random, DType from, DType to) {
    const int64_t count = random_size(random);
    CAPTURE(count);
    LooseVector x(from, random, count, 100.0f);
    Buffer expected(to, count);
    for (int64_t i = 0; i < count; ++i) expected.set(i, x.at(i));
    testing::for_each_isa([&](cpu::Isa isa) {
        // One value more, which no kernel may touch.
        Buffer out(to, std::vector<float>(static_cast<size_t>(count + 1), 3.0f));
        ops::convert(context, x.view(), out.view({count + 1}).rows(0, count));
        bool same = out[count] == 3.0f;
        for (int64_t i = 0; i < count; ++i) same = same && out[i] == expected[i];
        INFO(std::string(cpu::isa_name(isa)));
        CHECK(same);
    });
}

// Where a code ends and the next begins, and a few units beside that.
std::vector<float> around_halves(float divisor) {
    std::vector<float> x = {0.0f, -0.0f, divisor * 200, divisor * -200, 3e38f, -3e38f};
    for (int code = -129; code <= 128; ++code) {
        float value = static_cast<float>((code + 0.5) * double{divisor});
        for (int i = 0; i < 2; ++i) value = std::nextafter(value, -INFINITY);
        for (int i = 0; i < 5; ++i, value = std::nextafter(value, INFINITY)) x.push_back(value);
    }
    return x;
}

}  // namespace

TEST_CASE("instruction sets agree: codes of x are those that division gives") {
    Random random(107);
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(std::string(cpu::isa_name(isa)));
        for (int exponent = -80; exponent <= 80; ++exponent) {
            const auto fraction = static_cast<float>(1.0 + random.below(1 << 23) * 0x1p-23);
            const float divisor = std::ldexp(fraction, exponent);
            CAPTURE(divisor);
            const std::vector<float> x = around_halves(divisor);
            for (const auto& [low, high] : {std::pair{-128.0f, 127.0f}, std::pair{-8.0f, 7.0f}}) {
                std::vector<int8_t> codes(x.size());
                cpu::kernels().round_i8(x.data(), divisor, low, high, codes.data(),
                                        static_cast<int64_t>(x.size()));
                bool same = true;
                for (size_t i = 0; i < x.size(); ++i) {
                    const float code = std::nearbyint(std::clamp(x[i] / divisor, low, high));
                    same = same && static_cast<float>(codes[i]) == code;
                }
                CHECK(same);
            }
        }
    });
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
        check_rope(machine.context(), random, ops::RopePairs::halves);
        check_rope(machine.context(), random, ops::RopePairs::interleaved);
        check_sum_and_cap(machine.context(), random);
    }
}

TEST_CASE("instruction sets agree: tables, key-value storage and conversions") {
    testing::Machine machine;
    Random random(106);
    for (const DType from : testing::kFloatTypes) {
        for (int i = 0; i < 6; ++i) check_embedding(machine.context(), random, from);
        for (int i = 0; i < 6; ++i) check_write_kv(machine.context(), random, from);
        for (int i = 0; i < 6; ++i) {
            check_write_scaled_kv(machine.context(), random, DType::f8_e4m3);
            check_write_scaled_kv(machine.context(), random, DType::i8);
        }
        for (const DType to : testing::kFloatTypes) {
            for (int i = 0; i < 6; ++i) check_conversion(machine.context(), random, from, to);
        }
    }
}
