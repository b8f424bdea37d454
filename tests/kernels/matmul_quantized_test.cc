// Tests of matmuls with quantized weights: against double precision, and bit for bit across
// batches, threads and orders of columns.
#include "kernels/ops/matmul_quantized.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "reference.h"
#include "sparse_values.h"
#include "testing.h"
#include "tests/sanitized.h"

using namespace nvllm;
using ops::ActivationFormat;
using ops::MatmulOutput;
using ops::WeightFormat;
using testing::same_bits;

namespace {

// What quantized values mean, from their definitions.
double meaning(WeightFormat code, int8_t stored) {
    const auto bits = static_cast<uint8_t>(stored);
    if (code == WeightFormat::int4 || code == WeightFormat::int8) return stored;
    const bool wide = code != WeightFormat::float4;
    const int mantissa_bits = wide ? 3 : 1;
    const int bias = wide ? 7 : 1;
    const int exponent = (bits >> mantissa_bits) & (wide ? 15 : 3);
    const double fraction = (bits & ((1 << mantissa_bits) - 1)) / std::pow(2.0, mantissa_bits);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                           : std::ldexp(1.0 + fraction, exponent - bias);
    return (bits & (wide ? 128 : 8)) != 0 ? -magnitude : magnitude;
}

int8_t any_format(WeightFormat code, uint64_t random) {
    if (code == WeightFormat::int4) return static_cast<int8_t>(random % 16) - 8;
    if (code == WeightFormat::float4) return static_cast<int8_t>(random % 16);
    const auto bits = static_cast<uint8_t>(random);
    const bool is_nan = code != WeightFormat::int8 && (bits & 127) == 127;
    return static_cast<int8_t>(is_nan ? 0 : bits);
}

double meaning_of_float8(uint8_t bits) {
    return meaning(WeightFormat::float8, static_cast<int8_t>(bits));
}

// A matrix as a file has it, and packed.
struct Matrix {
    ops::QuantizedLayout layout;
    std::vector<int8_t> codes, zeros;
    std::optional<testing::SparseValues> kept;
    std::vector<float> scales;
    std::vector<uint8_t> packed;
    std::vector<int32_t> columns;
    float factor = 1.0f;
    ops::ActivationRounding activations;

    Matrix(testing::Machine& machine, const ops::QuantizedLayout& wanted) : layout(wanted) {
        uint64_t random = 88172645463325252u;
        const auto next = [&] {
            random ^= random << 13;
            random ^= random >> 7;
            return random ^= random << 17;
        };
        if (is_sparse(layout.code)) {
            kept.emplace(layout, meaning_of_float8);
        } else {
            for (int64_t i = 0; i < layout.out * layout.in; ++i) {
                codes.push_back(any_format(layout.code, next() >> 20));
            }
        }
        for (int64_t i = 0; i < layout.out * layout.groups(); ++i) {
            // Held exactly by every type.
            scales.push_back(static_cast<float>(next() % 7 + 1) * 0.015625f);
            if (layout.has_zero_points) {
                zeros.push_back(any_format(WeightFormat::int4, next() >> 20));
            }
        }
        packed.resize(ops::quantized_weight_bytes(layout, {}));
        pack(machine);
    }

    void pack(testing::Machine& machine) {
        ops::UnpackedQuantizedWeight plain;
        if (kept) {
            plain = kept->plain();
        } else {
            plain.codes = ConstTensorView(codes.data(), DType::i8, {layout.out, layout.in});
        }
        plain.scales = ConstTensorView(scales.data(), DType::f32, {layout.out, layout.groups()});
        if (layout.has_zero_points) {
            plain.zero_points =
                ConstTensorView(zeros.data(), DType::i8, {layout.out, layout.groups()});
        }
        ops::pack_weight(machine.context(), layout, plain, view());
    }
    TensorView view() { return {packed.data(), DType::u8, {static_cast<int64_t>(packed.size())}}; }
    double value(int64_t row, int64_t k) const {
        const auto at = static_cast<size_t>(row * layout.groups() + k / layout.group_size);
        const auto place = static_cast<size_t>(row * layout.in + k);
        if (kept) return kept->meanings[place] * scales[at] * factor;
        const double zero = layout.has_zero_points ? zeros[at] : 0;
        return (meaning(layout.code, codes[place]) - zero) * scales[at] * factor;
    }
    ops::QuantizedWeight weight() {
        ops::QuantizedWeight result{layout, factor, activations, view(), {}};
        if (!columns.empty()) {
            result.columns = ConstTensorView(columns.data(), DType::i32, {layout.in});
        }
        return result;
    }
};

struct Call {
    int64_t tokens;
    DType compute_type = DType::f32;
    MatmulOutput output = MatmulOutput::overwrite;
    bool with_bias = false;
};

std::vector<float> bias_of(int64_t out) { return testing::Random(4).values(out); }
std::vector<float> x_of(int64_t tokens, int64_t in) {
    return testing::Random(1).values(tokens * in);
}

std::vector<float> run(testing::Machine& machine, Matrix& matrix, const std::vector<float>& x,
                       const Call& call) {
    std::vector<float> y(static_cast<size_t>(call.tokens * matrix.layout.out), 2.5f);
    const std::vector<float> bias = bias_of(matrix.layout.out);
    ops::matmul_quantized(
        machine.context(), ConstTensorView(x.data(), DType::f32, {call.tokens, matrix.layout.in}),
        matrix.weight(),
        call.with_bias ? ConstTensorView(bias.data(), DType::f32, {matrix.layout.out})
                       : ConstTensorView(),
        call.compute_type, call.output,
        TensorView(y.data(), DType::f32, {call.tokens, matrix.layout.out}));
    return y;
}

// x: as it is multiplied, [tokens, in].
bool matches(const Matrix& matrix, const std::vector<double>& x, const Call& call,
             const std::vector<float>& y, double relative = 2e-6) {
    const int64_t in = matrix.layout.in;
    const std::vector<float> bias = bias_of(matrix.layout.out);
    for (int64_t t = 0; t < call.tokens; ++t) {
        for (int64_t o = 0; o < matrix.layout.out; ++o) {
            reference::Dot dot;
            for (int64_t k = 0; k < in; ++k) {
                dot.add(x[static_cast<size_t>(t * in + k)], matrix.value(o, k));
            }
            if (call.with_bias) dot.add(1, bias[static_cast<size_t>(o)]);
            if (call.output == MatmulOutput::accumulate) dot.add(1, 2.5);
            const float actual = y[static_cast<size_t>(t * matrix.layout.out + o)];
            if (!(std::abs(actual - dot.sum) <= dot.magnitude * relative)) return false;
        }
    }
    return true;
}

std::vector<double> rounded_to(DType type, const std::vector<float>& x) {
    testing::Buffer buffer(type, x);
    std::vector<double> values;
    for (size_t i = 0; i < x.size(); ++i) values.push_back(buffer[static_cast<int64_t>(i)]);
    return values;
}

void check_layout(testing::Machine& machine, const ops::QuantizedLayout& layout, int64_t tokens) {
    CAPTURE(layout.out);
    CAPTURE(layout.in);
    CAPTURE(layout.group_size);
    CAPTURE(static_cast<int>(layout.code));
    CAPTURE(tokens);
    Matrix matrix(machine, layout);
    matrix.factor = 0.75f;
    const std::vector<float> x = x_of(tokens, layout.in);
    for (const DType type : testing::kFloatTypes) {
        const Call call{tokens, type,
                        type == DType::f16 ? MatmulOutput::accumulate : MatmulOutput::overwrite,
                        type == DType::bf16};
        CHECK(matches(matrix, rounded_to(type, x), call, run(machine, matrix, x, call)));
    }
}

ops::QuantizedLayout layout_of(WeightFormat code, int64_t out, int64_t in, int64_t group_size,
                               bool zeros = false, DType scale_type = DType::f32) {
    return {code, out, in, group_size, zeros, scale_type};
}

constexpr WeightFormat kCodes[] = {WeightFormat::int4, WeightFormat::int8, WeightFormat::float4,
                                   WeightFormat::float8};

constexpr WeightFormat kSparseFormats[] = {
    WeightFormat::sparse_bfloat16, WeightFormat::sparse_float16, WeightFormat::sparse_float8};
constexpr WeightFormat kAllFormats[] = {WeightFormat::int4,
                                        WeightFormat::int8,
                                        WeightFormat::float4,
                                        WeightFormat::float8,
                                        WeightFormat::sparse_bfloat16,
                                        WeightFormat::sparse_float16,
                                        WeightFormat::sparse_float8};

bool is_integer(WeightFormat code) {
    return code == WeightFormat::int4 || code == WeightFormat::int8;
}

}  // namespace

TEST_CASE("quantized products match the reference for all codes, groups and odd sizes") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : kCodes) {
            check_layout(machine, layout_of(code, 33, 100, 100), 3);
            check_layout(machine, layout_of(code, 5, 72, 16), 1);
            check_layout(machine, layout_of(code, 70, 300, 128, false, DType::bf16), 14);
            check_layout(machine, layout_of(code, 16, 1, 1), 2);
            check_layout(machine, layout_of(code, 130, 264, 32, false, DType::f16), 7);
            check_layout(machine, layout_of(code, 150, 320, 64, false, DType::f16), 16);
            check_layout(machine, layout_of(code, 40, 544, 544), 4);
            if (!is_integer(code)) continue;
            check_layout(machine, layout_of(code, 66, 264, 32, true), 5);
            check_layout(machine, layout_of(code, 130, 288, 96, true), 3);
            check_layout(machine, layout_of(code, 40, 129, 200, true), 20);
        }
    });
}

TEST_CASE("quantized products: sparse matrices match the reference for all types and odd sizes") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : kSparseFormats) {
            check_layout(machine, layout_of(code, 33, 100, 100), 3);
            check_layout(machine, layout_of(code, 16, 4, 4), 2);
            check_layout(machine, layout_of(code, 5, 72, 72), 1);
            check_layout(machine, layout_of(code, 130, 264, 32, false, DType::f16), 7);
            // More than one K-block, with a short last one.
            check_layout(machine, layout_of(code, 70, 2060, 2060, false, DType::bf16), 14);
        }
    });
}

TEST_CASE("quantized products: of x only what sparse matrices keep a weight for is multiplied") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : kSparseFormats) {
            for (const DType type : {DType::f32, DType::bf16}) {
                Matrix matrix(machine, layout_of(code, 20, 96, 96));
                std::vector<float> x = x_of(3, 96);
                x[96 + 5] = std::nanf("");
                const std::vector<float> y = run(machine, matrix, x, {3, type});
                size_t reached = 0;
                for (size_t i = 0; i < y.size(); ++i) {
                    const bool is_kept = matrix.kept->keeps(static_cast<int64_t>(i % 20), 5);
                    // To tiles what is not kept is a zero.
                    const bool is_zero = isa == cpu::Isa::amx && type == DType::bf16 &&
                                         code != WeightFormat::sparse_float16;
                    CHECK(std::isnan(y[i]) == (i / 20 == 1 && (is_kept || is_zero)));
                    reached += is_kept ? 1 : 0;
                }
                CHECK(reached > 0);
                CHECK(reached < 60);
            }
        }
    });
}

TEST_CASE("quantized products: sparse matrices are smaller, and keep two of four") {
    testing::Machine machine;
    const auto bytes_of = [](WeightFormat code) {
        return ops::quantized_weight_bytes(layout_of(code, 1024, 1024, 1024, false, DType::bf16),
                                           {});
    };
    // A sixteenth for places, and scales of each row.
    CHECK(bytes_of(WeightFormat::sparse_bfloat16) == 1024 * 1024 * 2 * 9 / 16 + 1024 * 2);
    CHECK(bytes_of(WeightFormat::sparse_float16) == bytes_of(WeightFormat::sparse_bfloat16));
    CHECK(bytes_of(WeightFormat::sparse_float8) == 1024 * 1024 * 5 / 8 + 1024 * 2);

    Matrix matrix(machine, layout_of(WeightFormat::sparse_bfloat16, 20, 96, 96));
    matrix.kept->places[12 * 7 + 3] ^= 16;
    CHECK_THROWS_AS(matrix.pack(machine), Error);
    CHECK_FALSE(
        ops::can_multiply_quantized(layout_of(WeightFormat::sparse_float8, 20, 96, 48), {}, {}));
    CHECK(ops::can_multiply_quantized(layout_of(WeightFormat::sparse_float8, 20, 96, 32), {}, {}));
    CHECK_FALSE(
        ops::can_multiply_quantized(layout_of(WeightFormat::sparse_bfloat16, 20, 98, 98), {}, {}));
}

TEST_CASE("quantized products: one row gives the same bits alone and among many, on any threads") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : kAllFormats) {
            for (const ops::ActivationRounding& activations :
                 {ops::ActivationRounding{},
                  {ActivationFormat::int8, 0, 0.0f, 0.0f, false},
                  {ActivationFormat::float8, 0, 0.0f, 0.0f, false},
                  {ActivationFormat::float8, 64, 0.0f, 0.0f, false}}) {
                for (const ops::QuantizedLayout& layout :
                     {layout_of(code, 100, 320, 64), layout_of(code, 100, 328, 64),
                      layout_of(code, 20, 576, 576), layout_of(code, 100, 320, 64, true),
                      layout_of(code, 70, 304, 16)}) {
                    if (is_sparse(layout.code) && layout.group_size < 32) continue;
                    if (layout.has_zero_points && !is_integer(code)) continue;
                    testing::Machine machine;
                    Matrix matrix(machine, layout);
                    matrix.activations = activations;
                    constexpr int64_t all = 270;
                    const std::vector<float> x = x_of(all, layout.in);
                    const std::vector<float> many = run(machine, matrix, x, {all, DType::bf16});
                    for (const int64_t tokens :
                         test::all_or_few({1, 2, 3, 5, 13, 24, 33, 97, 257}, {1, 5, 33})) {
                        const std::vector<float> few =
                            run(machine, matrix, x, {tokens, DType::bf16});
                        CHECK(std::equal(few.begin(), few.end(), many.begin()));
                    }
                    testing::Machine other(5);
                    CHECK(same_bits(run(other, matrix, x, {all, DType::bf16}), many));
                }
            }
        }
    });
}

TEST_CASE("quantized products: columns in another order give what they give in theirs") {
    testing::Machine machine;
    for (const auto activations : {ActivationFormat::compute_type, ActivationFormat::int8}) {
        Matrix matrix(machine, layout_of(WeightFormat::int4, 20, 64, 16));
        matrix.activations.code = activations;
        const std::vector<float> x = x_of(3, 64);
        const std::vector<float> expected = run(machine, matrix, x, {3});
        matrix.columns.resize(64);
        for (int32_t i = 0; i < 64; ++i) matrix.columns[static_cast<size_t>(i)] = (i * 29 + 7) % 64;
        std::vector<float> shuffled(x.size());
        for (size_t row = 0; row < 3; ++row) {
            for (size_t i = 0; i < 64; ++i) {
                shuffled[row * 64 + static_cast<size_t>(matrix.columns[i])] = x[row * 64 + i];
            }
        }
        CHECK(same_bits(run(machine, matrix, shuffled, {3}), expected));
    }
}

TEST_CASE("quantized products: long rows of integers in groups, the last one short") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : {WeightFormat::int4, WeightFormat::int8}) {
            testing::Machine machine;
            Matrix matrix(machine, layout_of(code, 70, 17 * 128 + 8, 128));
            matrix.activations = {ActivationFormat::int8, 0, 0.0f, 0.0f, false};
            constexpr int64_t all = 70;
            const std::vector<float> x = x_of(all, matrix.layout.in);
            const std::vector<float> many = run(machine, matrix, x, {all});
            for (const int64_t tokens : {1, 7, 33}) {
                const std::vector<float> few = run(machine, matrix, x, {tokens});
                CHECK(std::equal(few.begin(), few.end(), many.begin()));
            }
        }
    });
}

TEST_CASE("quantized products round x to integers of each row") {
    testing::Machine machine;
    std::vector<std::vector<float>> of_isas;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : kCodes) {
            for (const auto activations : {ActivationFormat::int8, ActivationFormat::int4}) {
                Matrix matrix(machine, layout_of(code, 50, 200, 200));
                matrix.activations.code = activations;
                std::vector<float> x = x_of(9, 200);
                std::fill(x.begin(), x.begin() + 200, 0.0f);
                const bool wide = activations == ActivationFormat::int8;
                std::vector<double> rounded;
                for (size_t row = 0; row < 9; ++row) {
                    float largest = 0;
                    for (size_t k = 0; k < 200; ++k) {
                        largest = std::max(largest, std::fabs(x[row * 200 + k]));
                    }
                    const float scale = largest / (wide ? 127.5f : 7.5f);
                    for (size_t k = 0; k < 200; ++k) {
                        const float q = largest == 0 ? 0 : std::nearbyint(x[row * 200 + k] / scale);
                        rounded.push_back(std::clamp<double>(q, wide ? -128 : -8, wide ? 127 : 7) *
                                          scale);
                    }
                }
                const std::vector<float> y = run(machine, matrix, x, {9});
                CHECK(matches(matrix, rounded, {9}, y));
                if (is_integer(code) && wide) of_isas.push_back(y);
            }
        }
    });
    // Sums of integers are exact: the same on every instruction set.
    for (size_t i = 2; i < of_isas.size(); ++i) CHECK(same_bits(of_isas[i], of_isas[i % 2]));
}

TEST_CASE("quantized products: what is no number does not become one, and stays in its row") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const WeightFormat code : kCodes) {
            for (const ops::ActivationRounding& rounding :
                 {ops::ActivationRounding{},
                  {ActivationFormat::int8, 0, 0.0f, 0.0f, false},
                  {ActivationFormat::int8, 0, 0.01f, 0.0f, false},
                  {ActivationFormat::int4, 0, 0.0f, 0.0f, false},
                  {ActivationFormat::float8, 32, 0.0f, 0.0f, false},
                  {ActivationFormat::float8, 0, 0.01f, 0.0f, false},
                  {ActivationFormat::float8, 32, 0.0f, 0.0f, true},
                  {ActivationFormat::float4, 32, 0.0f, 0.0f, true},
                  {ActivationFormat::float4, 16, 0.0f, 300.0f, false}}) {
                CAPTURE(static_cast<int>(rounding.code));
                CAPTURE(rounding.scale);
                Matrix matrix(machine, layout_of(code, 20, 96, 96));
                matrix.activations = rounding;
                for (const float value : {NAN, kInfinity, -kInfinity}) {
                    std::vector<float> x = x_of(3, 96);
                    x[96 + 5] = value;
                    const std::vector<float> y = run(machine, matrix, x, {3, DType::bf16});
                    for (size_t i = 0; i < y.size(); ++i) {
                        CHECK(std::isfinite(y[i]) == (i / 20 != 1));
                    }
                }
            }
        }
    });
}

TEST_CASE("quantized products: sums of integers reach the largest values without loss") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        const auto check = [&](WeightFormat code, int weight) {
            CAPTURE(weight);
            Matrix matrix(machine, layout_of(code, 17, 4096, 4096));
            std::fill(matrix.codes.begin(), matrix.codes.end(), static_cast<int8_t>(weight));
            matrix.pack(machine);
            matrix.activations = {ActivationFormat::int8, 0, 1.0f, 0.0f, false};
            const std::vector<float> x(2 * 4096, -500.0f);
            std::vector<double> clamped(x.size(), -128.0);
            CHECK(matches(matrix, clamped, {2}, run(machine, matrix, x, {2}), 1e-7));
        };
        // Both ends: some instruction sets multiply them as the ends of an unsigned range.
        for (const int weight : {-8, 7}) check(WeightFormat::int4, weight);
        for (const int weight : {-128, 127}) check(WeightFormat::int8, weight);
    });
}

TEST_CASE("quantized products: float activations by row, by group, given and MX") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        const std::vector<ops::ActivationRounding> roundings = {
            {ActivationFormat::float8, 0, 0.0f, 0.0f, false},
            {ActivationFormat::float8, 32, 0.0f, 0.0f, false},
            {ActivationFormat::float8, 0, 0.01f, 0.0f, false},
            {ActivationFormat::float8, 32, 0.0f, 0.0f, true},
            {ActivationFormat::float4, 32, 0.0f, 0.0f, true},
            {ActivationFormat::float4, 16, 0.0f, 300.0f, false}};
        for (const ops::ActivationRounding& rounding : roundings) {
            CAPTURE(static_cast<int>(rounding.code));
            CAPTURE(rounding.group_size);
            Matrix matrix(machine, layout_of(WeightFormat::float8, 20, 96, 48));
            matrix.activations = rounding;
            // Values of the formats times scales that every rounding above chooses exactly.
            std::vector<float> x;
            for (int i = 0; i < 3 * 96; ++i) {
                const float values[] = {rounding.code == ActivationFormat::float4 ? 6.0f : 7.0f,
                                        -0.5f,
                                        1.5f,
                                        0.0f,
                                        3.0f,
                                        -2.0f,
                                        4.0f,
                                        1.0f};
                x.push_back(values[i % 8] * (rounding.scale > 0.0f ? 0.01f : 1.0f));
            }
            const std::vector<double> exact(x.begin(), x.end());
            CHECK(matches(matrix, exact, {3}, run(machine, matrix, x, {3}),
                          rounding.global_scale > 0.0f ? 0.03 : 1e-6));
            // And what lies between is rounded, within half a step.
            const bool coarse = rounding.code == ActivationFormat::float4;
            const std::vector<float> other = x_of(3, 96);
            const std::vector<double> plain(other.begin(), other.end());
            const std::vector<float> y = run(machine, matrix, other, {3});
            CHECK(matches(matrix, plain, {3}, y, coarse ? 0.3 : 0.07));
            if (rounding.scale == 0.0f) CHECK_FALSE(matches(matrix, plain, {3}, y, 1e-5));
        }
    });
}

TEST_CASE("quantized products take the scratch that a dry run says, and check what they get") {
    testing::Machine machine;
    const ops::QuantizedLayout layout = layout_of(WeightFormat::int4, 48, 256, 64);
    Matrix matrix(machine, layout);
    ThreadPool threads(3);
    const std::vector<float> x = x_of(30, 256);
    std::vector<float> y(30 * 48);
    const TensorView out(y.data(), DType::f32, {30, 48});
    const auto multiply = [&](const Context& context, const ops::QuantizedWeight& weight) {
        ops::matmul_quantized(context, ConstTensorView(x.data(), DType::f32, {30, 256}), weight, {},
                              DType::bf16, MatmulOutput::overwrite, out);
    };
    for (const ops::ActivationRounding& activations :
         {ops::ActivationRounding{ActivationFormat::int8, 0, 0.0f, 0.0f, false},
          {},
          {ActivationFormat::float8, 8, 0.0f, 0.0f, false}}) {
        matrix.activations = activations;
        const DryRun dry({}, DType::f32, 3);
        multiply(dry.context(), matrix.weight());
        ScratchArena scratch(dry.scratch_bytes());
        Context context;
        context.scratch = &scratch;
        context.threads = &threads;
        multiply(context, matrix.weight());
        CHECK(scratch.num_growths() == 0);
        CHECK(scratch.peak_bytes() == dry.scratch_bytes());
    }
    ops::QuantizedWeight wrong = matrix.weight();
    wrong.layout.in = 128;
    CHECK_THROWS_AS(multiply(machine.context(), wrong), Error);
    CHECK(ops::can_multiply_quantized(layout, {}, {}));
    CHECK_FALSE(ops::can_multiply_quantized(layout_of(WeightFormat::int4, 48, 256, 20), {}, {}));
}
