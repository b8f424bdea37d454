// Emulated tests of CUDA matmuls with quantized weights against double precision, and of their
// independence of the batch.
#include "kernels/cuda/quantized/matmul_quantized.h"

#include <limits>
#include <optional>

#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quantized/dequantize_gemm.h"
#include "kernels/cuda/quantized/scaled_mm.h"
#include "kernels/host/dry_run.h"
#include "kernels/small_floats.h"
#include "tests/kernels/cuda/emulated.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/sparse_values.h"

using namespace nvllm;
using ops::ActivationFormat;
using ops::WeightFormat;
using testing::Buffer;

namespace {

constexpr auto overwrite = ops::MatmulOutput::overwrite;
constexpr auto accumulate = ops::MatmulOutput::accumulate;

ComputeTarget on_device(DType activations) { return {nullptr, activations}; }

struct Case {
    ops::QuantizedLayout layout;
    ops::ActivationRounding rounding = {};
    DType activation = DType::bf16;
    DType product = DType::bf16;
    int64_t tokens = 3;
    int64_t gap = 0;  // between rows of x and of y
    ops::MatmulOutput output = overwrite;
    bool one_row_of_scales = false;
    bool reorders = false;
    bool has_bias = false;
    float factor = 1.0f;
    bool is_dequantized = false;  // to a dense matrix, by chunks
    bool as_scaled_mm = false;    // by chunks
    int64_t chunk_bytes = cuda::kColumnChunkBytes;
    bool largest_last = false;  // of a row of x
};

int8_t random_value(WeightFormat code, testing::Random& random) {
    const auto bits = static_cast<int>(random.below(256));
    switch (code) {
        case WeightFormat::int4:
            return static_cast<int8_t>(bits % 16 - 8);
        case WeightFormat::int8:
            return static_cast<int8_t>(bits - 128);
        case WeightFormat::float4:
            return static_cast<int8_t>(bits % 16);
        default:
            return static_cast<int8_t>((bits & 0x7f) == 0x7f ? 0 : bits);
    }
}

double meaning(WeightFormat code, int8_t value) {
    if (code == WeightFormat::float4) return from_float4(static_cast<uint8_t>(value));
    if (code == WeightFormat::float8) return from_float8(static_cast<uint8_t>(value));
    return value;
}

// A matrix as a file has it, and packed.
struct Matrix {
    ops::QuantizedLayout layout;
    std::vector<int8_t> codes, zero_points;
    std::optional<testing::SparseValues> kept;
    std::vector<float> scales;
    bool one_row_of_scales;
    std::vector<uint8_t> packed;

    Matrix(const Case& test, testing::Random& random)
        : layout(test.layout), one_row_of_scales(test.one_row_of_scales) {
        if (is_sparse(layout.code)) {
            kept.emplace(layout, [](uint8_t bits) -> double { return from_float8(bits); });
        } else {
            for (int64_t i = 0; i < layout.out * layout.in; ++i) {
                codes.push_back(random_value(layout.code, random));
            }
        }
        const int64_t rows = one_row_of_scales ? 1 : layout.out;
        Buffer rounded(layout.scale_type, 1);
        for (int64_t i = 0; i < rows * layout.groups(); ++i) {
            rounded.set(0, 0.01f + 0.005f * random.uniform());
            scales.push_back(rounded[0]);
            if (layout.has_zero_points) {
                zero_points.push_back(random_value(layout.code, random));
            }
        }
        packed.resize(cuda::quantized_weight_bytes(layout, {}), 0xff);
    }

    void pack(const Context& context) {
        const int64_t rows = one_row_of_scales ? 1 : layout.out;
        ops::UnpackedQuantizedWeight plain;
        if (kept) {
            plain = kept->plain();
        } else {
            plain.codes = {codes.data(), DType::i8, {layout.out, layout.in}};
        }
        plain.scales = {scales.data(), DType::f32, {rows, layout.groups()}};
        if (layout.has_zero_points) {
            plain.zero_points = {zero_points.data(), DType::i8, {rows, layout.groups()}};
        }
        cuda::pack_weight(context, layout, plain, view());
    }
    TensorView view() { return {packed.data(), DType::u8, {static_cast<int64_t>(packed.size())}}; }
    double value(int64_t column, int64_t k) const {
        const int64_t group = k / layout.group_size;
        const auto at =
            static_cast<size_t>((one_row_of_scales ? 0 : column) * layout.groups() + group);
        if (kept) return kept->meanings[static_cast<size_t>(column * layout.in + k)] * scales[at];
        const double code =
            meaning(layout.code, codes[static_cast<size_t>(column * layout.in + k)]);
        return (code - (layout.has_zero_points ? zero_points[at] : 0)) * scales[at];
    }
};

double rounded_value(ActivationFormat code, float scaled) {
    switch (code) {
        case ActivationFormat::int8:
            return std::clamp(std::nearbyint(scaled), -128.0f, 127.0f);
        case ActivationFormat::int4:
            return std::clamp(std::nearbyint(scaled), -8.0f, 7.0f);
        case ActivationFormat::float8:
            return from_float8(to_float8(scaled));
        default:
            return from_float4(to_float4(scaled));
    }
}

float half_range(ActivationFormat code) {
    if (code == ActivationFormat::int8) return 127.5f;
    if (code == ActivationFormat::int4) return 7.5f;
    return code == ActivationFormat::float8 ? kLargestFloat8 : kLargestFloat4;
}

// What the contract makes of a row of x.
std::vector<double> rounded_row(const Case& test, const std::vector<float>& x) {
    const ops::ActivationRounding& rounding = test.rounding;
    std::vector<double> values;
    if (rounding.code == ActivationFormat::compute_type) {
        Buffer rounded(test.product, 1);
        for (const float value : x) {
            rounded.set(0, value);
            values.push_back(rounded[0]);
        }
        return values;
    }
    const size_t size =
        rounding.group_size > 0 ? static_cast<size_t>(rounding.group_size) : x.size();
    for (size_t begin = 0; begin < x.size(); begin += size) {
        const size_t end = std::min(begin + size, x.size());
        float largest = 0.0f;
        for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
        float scale = largest / half_range(rounding.code);
        if (rounding.powers_of_two) {
            scale = choose_power_of_two(largest, rounding.code == ActivationFormat::float4);
        }
        if (rounding.global_scale > 0.0f) {
            scale = from_float8(to_float8(scale * rounding.global_scale)) / rounding.global_scale;
        }
        if (rounding.scale > 0.0f) scale = rounding.scale;
        if (scale == 0.0f) scale = 1.0f;
        for (size_t i = begin; i < end; ++i) {
            values.push_back(rounded_value(rounding.code, x[i] / scale) * scale);
        }
    }
    return values;
}

// A library of products of quantized values, on the host.
void plain_scaled_mm(const Context&, const cuda::ScaledMmArgs& product) {
    const bool integers = product.x.dtype == DType::i8;
    const auto at = [&](const ConstTensorView& codes, int64_t row, int64_t k) {
        const int64_t index = row * codes.stride(0) + k;
        return integers ? static_cast<double>(codes.as<int8_t>()[index])
                        : from_float8(codes.as<uint8_t>()[index]);
    };
    for (int64_t token = 0; token < product.x.dim(0); ++token) {
        for (int64_t column = 0; column < product.weight.dim(0); ++column) {
            double sum = 0.0;
            for (int64_t k = 0; k < product.x.dim(1); ++k) {
                sum += at(product.x, token, k) * at(product.weight, column, k);
            }
            const int64_t place = token * product.y.stride(0) + column;
            if (integers) {
                REQUIRE(product.bias.data == nullptr);
                REQUIRE(product.output == overwrite);
                product.y.as<int32_t>()[place] = static_cast<int32_t>(sum);
                continue;
            }
            sum *= product.x_scales[token] * product.weight_scales[column];
            auto& y = product.y.as<BFloat16>()[place];
            if (product.output == accumulate) sum += static_cast<float>(y);
            if (product.bias.data != nullptr) {
                sum += static_cast<float>(product.bias.as<BFloat16>()[column]);
            }
            y = BFloat16(static_cast<float>(sum));
        }
    }
}
constexpr cuda::ScaledMmLibrary kPlainScaledMm = {
    [](const Context&, const cuda::ScaledMmArgs&) { return true; }, plain_scaled_mm};

void check_matmul(const Case& test) {
    const ops::QuantizedLayout& layout = test.layout;
    CAPTURE(static_cast<int>(layout.code));
    CAPTURE(layout.in);
    CAPTURE(layout.group_size);
    CAPTURE(test.tokens);
    CAPTURE(static_cast<int>(test.rounding.code));
    CAPTURE(static_cast<int>(test.product));
    testing::Machine machine(1);
    testing::Random random(static_cast<uint64_t>(layout.in + layout.out));
    Matrix matrix(test, random);
    matrix.pack(machine.context());
    REQUIRE(cuda::can_multiply_quantized(layout, test.rounding, on_device(test.activation)));
    const int64_t x_stride = layout.in + test.gap, y_stride = layout.out + test.gap;
    Buffer x(test.activation, random.values(test.tokens * x_stride));
    Buffer bias(DType::bf16, random.values(layout.out));
    Buffer y(test.activation, random.values(test.tokens * y_stride));
    const Buffer before = y;
    std::vector<int32_t> columns(static_cast<size_t>(layout.in));
    for (size_t i = 0; i < columns.size(); ++i) {
        columns[i] = static_cast<int32_t>(test.reorders ? (i * 7 + 3) % columns.size() : i);
    }
    for (int64_t token = 0; test.largest_last && token < test.tokens; ++token) {
        x.set(token * x_stride + columns.back(), 2.0f);
    }
    ops::QuantizedWeight weight{layout, test.factor, test.rounding, matrix.view(), {}};
    if (test.reorders) weight.columns = {columns.data(), DType::i32, {layout.in}};
    const TensorView rows = x.matrix(test.tokens, layout.in, x_stride);
    const ConstTensorView biases = test.has_bias ? bias.view({layout.out}) : TensorView();
    const TensorView out = y.matrix(test.tokens, layout.out, y_stride);
    const auto multiply = [&](const Context& context) {
        if (test.is_dequantized) {
            REQUIRE(cuda::can_dequantize(rows, weight, test.product));
            cuda::dequantize_gemm(context, rows, weight, biases, test.product, test.output, out,
                                  cuda::gemm, test.chunk_bytes);
        } else if (test.as_scaled_mm) {
            // A dry run does not ask a library.
            REQUIRE(cuda::scaled_mm(context, rows, weight, biases, test.output, out, kPlainScaledMm,
                                    test.chunk_bytes) != context.is_dry_run());
        } else {
            cuda::gemm_quantized(context, rows, weight, biases, test.product, test.output, out);
        }
    };
    const DryRun dry({}, test.activation, 1);
    multiply(dry.context());
    multiply(machine.context());
    CHECK(machine.context().scratch->peak_bytes() == dry.scratch_bytes());
    Buffer rounded(test.product, 1);
    const auto value = [&](int64_t column, int64_t k) {
        const double exact = matrix.value(column, k) * test.factor;
        if (!test.is_dequantized) return exact;
        rounded.set(0, static_cast<float>(exact));
        return static_cast<double>(rounded[0]);
    };
    bool right = true;
    for (int64_t token = 0; token < test.tokens; ++token) {
        std::vector<float> row;
        for (const int32_t column : columns) row.push_back(x[token * x_stride + column]);
        std::vector<double> values = rounded_row(test, row);
        if (test.is_dequantized) {
            for (double& one : values) {
                rounded.set(0, static_cast<float>(one));
                one = rounded[0];
            }
        }
        for (int64_t column = 0; column < layout.out; ++column) {
            reference::Dot dot;
            for (int64_t k = 0; k < layout.in; ++k) {
                dot.add(values[static_cast<size_t>(k)], value(column, k));
            }
            const int64_t i = token * y_stride + column;
            double expected = dot.sum + (test.has_bias ? bias[column] : 0.0f);
            if (test.output == accumulate) expected += before[i];
            right = right && testing::close(y[i], expected, testing::rounding(test.activation),
                                            2e-6 * dot.magnitude + 1e-6);
        }
        for (int64_t column = layout.out; column < y_stride; ++column) {
            const int64_t i = token * y_stride + column;
            right = right && y[i] == before[i];
        }
    }
    CHECK(right);
}

// The products of rows x by a matrix, every way that the module may take for so many.
std::vector<Buffer> matmuls_every_way(const Case& test, const ops::QuantizedWeight& weight,
                                      const TensorView& x) {
    testing::Machine machine(1);
    std::vector<Buffer> all;
    const auto multiplied = [&](const auto& multiply) {
        Buffer y(test.activation, x.dim(0) * test.layout.out);
        multiply(y.view({x.dim(0), test.layout.out}));
        all.push_back(std::move(y));
    };
    multiplied([&](const TensorView& y) {
        cuda::gemm_quantized(machine.context(), x, weight, {}, test.product, overwrite, y);
    });
    if (cuda::can_dequantize(x, weight, test.product)) {
        multiplied([&](const TensorView& y) {
            cuda::dequantize_gemm(machine.context(), x, weight, {}, test.product, overwrite, y,
                                  cuda::gemm, cuda::kColumnChunkBytes);
        });
    }
    if (test.as_scaled_mm) {
        multiplied([&](const TensorView& y) {
            REQUIRE(cuda::scaled_mm(machine.context(), x, weight, {}, overwrite, y, kPlainScaledMm,
                                    cuda::kColumnChunkBytes));
        });
    }
    return all;
}

// A row with such a value, alone or in all its columns, has no finite output; other rows have the
// bits that they have beside a row of numbers.
void check_not_finite(const Case& test, float value, bool is_all) {
    const ops::QuantizedLayout& layout = test.layout;
    CAPTURE(static_cast<int>(layout.code));
    CAPTURE(static_cast<int>(test.rounding.code));
    CAPTURE(test.rounding.scale);
    CAPTURE(test.tokens);
    CAPTURE(value);
    testing::Machine machine(1);
    testing::Random random(7);
    Matrix matrix(test, random);
    matrix.pack(machine.context());
    const ops::QuantizedWeight weight{layout, 1.0f, test.rounding, matrix.view(), {}};
    Buffer x(test.activation, random.values(test.tokens * layout.in));
    const TensorView rows = x.view({test.tokens, layout.in});
    const std::vector<Buffer> before = matmuls_every_way(test, weight, rows);
    const int64_t bad = test.tokens / 2;
    for (int64_t k = is_all ? 0 : layout.in - 3; k < (is_all ? layout.in : layout.in - 2); ++k) {
        x.set(bad * layout.in + k, value);
    }
    const std::vector<Buffer> after = matmuls_every_way(test, weight, rows);
    bool right = true;
    for (size_t way = 0; way < before.size(); ++way) {
        for (int64_t i = 0; i < before[way].size(); ++i) {
            right = right && (i / layout.out == bad ? !std::isfinite(after[way][i])
                                                    : after[way][i] == before[way][i]);
        }
    }
    CHECK(right);
}

constexpr WeightFormat kCodes[] = {WeightFormat::int4, WeightFormat::int8, WeightFormat::float4,
                                   WeightFormat::float8};

constexpr WeightFormat kSparseFormats[] = {
    WeightFormat::sparse_bfloat16, WeightFormat::sparse_float16, WeightFormat::sparse_float8};

bool is_integer(WeightFormat code) {
    return code == WeightFormat::int4 || code == WeightFormat::int8;
}

// Types that x can have.
std::vector<DType> partners_of(WeightFormat code) {
    if (code == WeightFormat::sparse_bfloat16) return {DType::f32, DType::bf16};
    if (code == WeightFormat::sparse_float16) return {DType::f32, DType::f16};
    return {DType::f32, DType::bf16, DType::f16};
}

}  // namespace

TEST_CASE("cuda: quantized products of every code and type match double precision") {
    for (const WeightFormat code : kCodes) {
        for (const DType product : testing::kFloatTypes) {
            check_matmul({.layout = {code, 35, 160, 32, is_integer(code), DType::f32},
                          .activation = product,
                          .product = product,
                          .output = accumulate,
                          .has_bias = true});
            check_matmul({.layout = {code, 9, 77, 77, false, DType::bf16},
                          .activation = DType::f32,
                          .product = product,
                          .tokens = 2,
                          .gap = 3,
                          .one_row_of_scales = true,
                          .factor = 0.25f});
            // Behind the last k lies the next row, and quantized values that pad are no 0 less a
            // zero point.
            check_matmul({.layout = {code, 9, 72, 72, is_integer(code), DType::f32},
                          .activation = product,
                          .product = product});
        }
    }
}

TEST_CASE("cuda: quantized products of many rows and of few, in every schedule") {
    under_all_schedules([] {
        for (const DType dtype : {DType::bf16, DType::f32}) {
            for (const int64_t tokens : {1, 16, 17, 66}) {
                check_matmul({.layout = {WeightFormat::int4, 70, 272, 128, true, DType::f16},
                              .activation = dtype,
                              .product = dtype,
                              .tokens = tokens,
                              .has_bias = true});
            }
            check_matmul({.layout = {WeightFormat::int8, 66, 208, 48, false, DType::f32},
                          .activation = dtype,
                          .product = dtype,
                          .tokens = 20,
                          .gap = 8});
        }
    });
}

TEST_CASE(
    "cuda: x is rounded to codes with scales of rows, of groups, given ones and powers of two") {
    const std::vector<std::pair<ops::ActivationRounding, WeightFormat>> ways = {
        {{.code = ActivationFormat::int8}, WeightFormat::int8},
        {{.code = ActivationFormat::int4}, WeightFormat::int4},
        {{.code = ActivationFormat::int8, .scale = 0.011f}, WeightFormat::int8},
        {{.code = ActivationFormat::float8}, WeightFormat::float8},
        {{.code = ActivationFormat::float8, .group_size = 128}, WeightFormat::float8},
        {{.code = ActivationFormat::float8, .group_size = 32, .powers_of_two = true},
         WeightFormat::float8},
        {{.code = ActivationFormat::float4, .group_size = 32, .powers_of_two = true},
         WeightFormat::float4},
        {{.code = ActivationFormat::float4, .group_size = 16, .global_scale = 900.0f},
         WeightFormat::float4}};
    for (const auto& [rounding, code] : ways) {
        for (const DType dtype : {DType::bf16, DType::f32}) {
            check_matmul({.layout = {code, 40, 304, 32, false, DType::f32},
                          .rounding = rounding,
                          .activation = dtype,
                          .product = dtype,
                          .tokens = 5});
        }
    }
}

TEST_CASE("cuda: what is no number does not become one as x is rounded, and stays in its row") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::vector<std::pair<ops::ActivationRounding, WeightFormat>> ways = {
        {{}, WeightFormat::int4},
        {{.code = ActivationFormat::int8}, WeightFormat::int8},
        {{.code = ActivationFormat::int8}, WeightFormat::int4},
        {{.code = ActivationFormat::int8, .scale = 0.01f}, WeightFormat::int8},
        {{.code = ActivationFormat::int8, .group_size = 32}, WeightFormat::int8},
        {{.code = ActivationFormat::int8}, WeightFormat::sparse_float8},
        {{.code = ActivationFormat::int4}, WeightFormat::int4},
        {{.code = ActivationFormat::float8}, WeightFormat::float8},
        {{.code = ActivationFormat::float8, .scale = 0.01f}, WeightFormat::float8},
        {{.code = ActivationFormat::float8, .group_size = 32}, WeightFormat::float8},
        {{.code = ActivationFormat::float8, .group_size = 32, .powers_of_two = true},
         WeightFormat::float8},
        {{.code = ActivationFormat::float4, .group_size = 32, .powers_of_two = true},
         WeightFormat::float4},
        {{.code = ActivationFormat::float4, .group_size = 16, .global_scale = 900.0f},
         WeightFormat::float4}};
    for (const auto& [rounding, code] : ways) {
        const bool has_plain_values =
            (code == WeightFormat::int8 || code == WeightFormat::float8) &&
            rounding.group_size == 0;
        Case test{.layout = {code, 20, 96, 96, false, DType::f32}, .rounding = rounding};
        // Few rows, those of tensor cores, and those that go by way of a dense matrix or as
        // quantized values.
        for (const int64_t tokens : {1, 3, 8, 20, 70, 130}) {
            test.tokens = tokens;
            test.as_scaled_mm = has_plain_values && tokens == 130;
            check_not_finite(test, NAN, false);
            check_not_finite(test, kInfinity, false);
            if (tokens != 3 && tokens != 20) continue;
            check_not_finite(test, -kInfinity, false);
            check_not_finite(test, NAN, true);
        }
        test.activation = test.product = DType::f32;
        test.tokens = 3;
        test.as_scaled_mm = false;
        check_not_finite(test, NAN, false);
        check_not_finite(test, -kInfinity, false);
        // Beyond what a block keeps of a row.
        test.layout.in = test.layout.group_size = 8232;
        test.layout.out = 3;
        check_not_finite(test, NAN, false);
    }
}

TEST_CASE("cuda: quantized products of integers, of all ends and groups") {
    const ops::ActivationRounding rows{.code = ActivationFormat::int8};
    const ops::ActivationRounding groups{.code = ActivationFormat::int8, .group_size = 64};
    const ops::ActivationRounding nibbles{.code = ActivationFormat::int4};
    for (const int64_t tokens : {1, 16, 17, 66}) {
        for (const auto& rounding : {rows, groups, nibbles}) {
            check_matmul({.layout = {WeightFormat::int8, 35, 200, 200, false, DType::f32},
                          .rounding = rounding,
                          .tokens = tokens,
                          .output = accumulate,
                          .has_bias = true});
            check_matmul({.layout = {WeightFormat::int4, 70, 277, 32, true, DType::bf16},
                          .rounding = rounding,
                          .activation = DType::f32,
                          .product = DType::f16,
                          .tokens = tokens,
                          .gap = 5,
                          .factor = 0.5f});
        }
    }
    // As floats: zero points of 8 bits, and groups that end within a step of 32.
    check_matmul({.layout = {WeightFormat::int8, 35, 160, 32, true, DType::f32}, .rounding = rows});
    check_matmul({.layout = {WeightFormat::int4, 35, 160, 48, true, DType::f32}, .rounding = rows});
}

TEST_CASE("cuda: quantized products of few rows, however warps share sums of them") {
    struct Shape {
        WeightFormat code;
        int64_t in, group_size;
    };
    // More than one window of parts; parts of a unit; sums of several units, the last one shorter;
    // groups that are cut; groups that no warp has to itself.
    const Shape shapes[] = {{WeightFormat::int4, 4480, 128},  {WeightFormat::float4, 2080, 16},
                            {WeightFormat::float4, 1104, 32}, {WeightFormat::int8, 1000, 192},
                            {WeightFormat::int8, 1608, 1608}, {WeightFormat::float8, 1536, 512},
                            {WeightFormat::int4, 576, 48},    {WeightFormat::int8, 640, 320}};
    for (const Shape& shape : shapes) {
        for (const int64_t tokens : {1, 8}) {
            check_matmul({.layout = {shape.code, 35, shape.in, shape.group_size,
                                     is_integer(shape.code), DType::bf16},
                          .tokens = tokens,
                          .output = accumulate,
                          .has_bias = true});
            if (!is_integer(shape.code) || shape.group_size % 32 != 0) continue;
            check_matmul({.layout = {shape.code, 24, shape.in, shape.group_size,
                                     shape.code == WeightFormat::int4, DType::f32},
                          .rounding = {.code = ActivationFormat::int8},
                          .tokens = tokens});
        }
    }
    under_all_schedules([] {
        check_matmul({.layout = {WeightFormat::int4, 40, 4480, 128, true, DType::f16},
                      .activation = DType::f16,
                      .product = DType::f16,
                      .tokens = 2});
        check_matmul({.layout = {WeightFormat::int8, 20, 600, 600, false, DType::f32},
                      .rounding = {.code = ActivationFormat::int8}});
    });
}

TEST_CASE("cuda: quantized products of many rows by way of a dense matrix") {
    for (const WeightFormat code : kCodes) {
        for (const DType dtype : {DType::bf16, DType::f16}) {
            check_matmul({.layout = {code, 35, 136, 32, is_integer(code), DType::bf16},
                          .activation = dtype,
                          .product = dtype,
                          .tokens = 130,
                          .gap = 8,
                          .output = accumulate,
                          .has_bias = true,
                          .factor = 0.5f,
                          .is_dequantized = true});
            check_matmul({.layout = {code, 9, 264, 264, false, DType::bf16},
                          .activation = dtype,
                          .product = dtype,
                          .tokens = 128,
                          .is_dequantized = true});
        }
    }
    // Chunks of two tiles of columns, the last one smaller.
    check_matmul({.layout = {WeightFormat::int4, 43, 136, 32, true, DType::bf16},
                  .tokens = 128,
                  .output = accumulate,
                  .has_bias = true,
                  .is_dequantized = true,
                  .chunk_bytes = 2 * 8 * 136 * 2});
    // Quantized values of x with scales of rows, of groups and given ones; columns in another
    // order.
    for (const ops::ActivationRounding& rounding :
         {ops::ActivationRounding{.code = ActivationFormat::int8},
          ops::ActivationRounding{.code = ActivationFormat::float8, .group_size = 64},
          ops::ActivationRounding{.code = ActivationFormat::float8, .scale = 0.01f},
          ops::ActivationRounding{.code = ActivationFormat::compute_type}}) {
        check_matmul({.layout = {WeightFormat::int8, 20, 192, 192, false, DType::bf16},
                      .rounding = rounding,
                      .activation = DType::f32,
                      .tokens = 128,
                      .gap = 3,
                      .reorders = true,
                      .is_dequantized = true});
    }
    under_all_schedules([] {
        check_matmul({.layout = {WeightFormat::int4, 20, 272, 128, true, DType::f16},
                      .tokens = 128,
                      .is_dequantized = true});
    });
}

TEST_CASE("cuda: quantized products round long rows") {
    // More than a block keeps of a row, which ends within a thread's run.
    for (const DType dtype : {DType::bf16, DType::f32}) {
        for (const bool reorders : {false, true}) {
            check_matmul({.layout = {WeightFormat::int8, 4, 10004, 10004, false, DType::f32},
                          .rounding = {.code = ActivationFormat::int8},
                          .activation = dtype,
                          .reorders = reorders,
                          .largest_last = true});
            check_matmul({.layout = {WeightFormat::float8, 4, 10000, 10000, false, DType::f32},
                          .rounding = {.code = ActivationFormat::float8},
                          .activation = dtype,
                          .reorders = reorders,
                          .largest_last = true});
        }
    }
}

TEST_CASE("cuda: quantized products of many rows as codes") {
    const auto rounding_of = [](WeightFormat code) {
        return code == WeightFormat::int8 ? ActivationFormat::int8 : ActivationFormat::float8;
    };
    for (const WeightFormat code : {WeightFormat::float8, WeightFormat::int8}) {
        check_matmul({.layout = {code, 35, 144, 144, false, DType::bf16},
                      .rounding = {.code = rounding_of(code)},
                      .tokens = 130,
                      .gap = 8,
                      .output = accumulate,
                      .has_bias = true,
                      .factor = 0.5f,
                      .as_scaled_mm = true});
        // Chunks of two tiles of columns, the last one smaller; columns in another order.
        check_matmul({.layout = {code, 43, 272, 272, false, DType::f32},
                      .rounding = {.code = rounding_of(code), .scale = 0.01f},
                      .tokens = 128,
                      .one_row_of_scales = true,
                      .reorders = true,
                      .has_bias = true,
                      .as_scaled_mm = true,
                      .chunk_bytes = 2 * 8 * 272});
        under_all_schedules([&] {
            check_matmul({.layout = {code, 20, 208, 208, false, DType::f16},
                          .rounding = {.code = rounding_of(code)},
                          .tokens = 128,
                          .as_scaled_mm = true});
        });
    }
    // Sums of integers become values of any type.
    for (const DType dtype : {DType::f32, DType::f16}) {
        check_matmul({.layout = {WeightFormat::int8, 17, 64, 64, false, DType::f32},
                      .rounding = {.code = ActivationFormat::int8},
                      .activation = dtype,
                      .tokens = 128,
                      .gap = 3,
                      .output = accumulate,
                      .as_scaled_mm = true});
    }
}

TEST_CASE("cuda: which quantized products are of codes") {
    Buffer x(DType::bf16, 128 * 64);
    Buffer y(DType::bf16, 128 * 8);
    testing::Machine machine(1);
    static int asked;
    const cuda::ScaledMmLibrary library = {[](const Context&, const cuda::ScaledMmArgs&) {
                                               ++asked;
                                               return false;
                                           },
                                           plain_scaled_mm};
    const auto asks = [&](const ops::QuantizedLayout& layout,
                          const ops::ActivationRounding& rounding, int64_t tokens) {
        asked = 0;
        const ops::QuantizedWeight weight{layout, 1.0f, rounding, {}, {}};
        if (!cuda::can_scaled_mm(x.view({tokens, layout.in}), weight)) return false;
        CHECK_FALSE(cuda::scaled_mm(machine.context(), x.view({tokens, layout.in}), weight, {},
                                    overwrite, y.view({tokens, 8}), library));
        return asked > 0;
    };
    const ops::QuantizedLayout rows{WeightFormat::float8, 8, 64, 64, false, DType::f32};
    const ops::ActivationRounding rounding{.code = ActivationFormat::float8};
    const ops::QuantizedLayout integers{WeightFormat::int8, 8, 64, 64, false, DType::f32};
    const ops::ActivationRounding to_integers{.code = ActivationFormat::int8};
    CHECK(asks(rows, rounding, 64));
    CHECK_FALSE(asks(rows, rounding, 63));
    CHECK(asks(integers, to_integers, 128));
    CHECK_FALSE(asks(integers, to_integers, 127));
    CHECK_FALSE(asks({WeightFormat::int8, 8, 64, 64, true, DType::f32}, to_integers, 128));
    CHECK_FALSE(asks({WeightFormat::int8, 8, 64, 32, false, DType::f32}, to_integers, 128));
    CHECK_FALSE(asks({WeightFormat::float8, 8, 64, 32, false, DType::f32}, rounding, 128));
    CHECK_FALSE(asks(integers, rounding, 128));
    CHECK_FALSE(asks({WeightFormat::float8, 8, 56, 56, false, DType::f32}, rounding, 128));
    CHECK_FALSE(asks(rows, {}, 128));
    CHECK_FALSE(asks(rows, {.code = ActivationFormat::float8, .group_size = 32}, 128));
    CHECK_FALSE(asks(rows, {.code = ActivationFormat::float8, .powers_of_two = true}, 128));
    CHECK_FALSE(asks(rows, {.code = ActivationFormat::int8}, 128));
}

TEST_CASE("cuda: which quantized products go by way of a dense matrix") {
    const ops::QuantizedLayout layout{WeightFormat::int4, 8, 64, 32, false, DType::f32};
    Buffer x(DType::bf16, 128 * 64);
    ops::QuantizedWeight weight{layout, 1.0f, {}, {}, {}};
    CHECK(cuda::can_dequantize(x.view({128, 64}), weight, DType::bf16));
    CHECK_FALSE(cuda::can_dequantize(x.view({127, 64}), weight, DType::bf16));
    CHECK_FALSE(cuda::can_dequantize(x.view({128, 64}), weight, DType::f32));
    weight.activations = {
        .code = ActivationFormat::float4, .group_size = 16, .global_scale = 900.0f};
    CHECK_FALSE(cuda::can_dequantize(x.view({128, 64}), weight, DType::bf16));
    weight.activations = {.code = ActivationFormat::int8};
    CHECK(cuda::can_dequantize(x.view({128, 64}), weight, DType::bf16));
}

TEST_CASE("cuda: quantized products of integers, in every schedule") {
    under_all_schedules([] {
        for (const int64_t tokens : {16, 66}) {
            check_matmul({.layout = {WeightFormat::int8, 66, 416, 96, false, DType::f32},
                          .rounding = {.code = ActivationFormat::int8},
                          .tokens = tokens});
        }
    });
}

TEST_CASE("cuda: quantized products of integers are exact, however large sums become on the way") {
    // Half of the products add up to more than 2^24, where float32 has no odd numbers; the other
    // half takes most of it away again.
    const int64_t in = 3001;
    const Case test{.layout = {WeightFormat::int8, 8, in, in, false, DType::f32},
                    .rounding = {.code = ActivationFormat::int8, .scale = 1.0f},
                    .activation = DType::f32};
    testing::Machine machine(1);
    testing::Random random(1);
    Matrix matrix(test, random);
    std::fill(matrix.scales.begin(), matrix.scales.end(), 1.0f);
    Buffer x(DType::f32, in);
    for (int64_t k = 0; k < in; ++k) x.set(k, static_cast<float>(127 - k % 3));
    std::vector<int64_t> expected(static_cast<size_t>(test.layout.out));
    for (int64_t i = 0; i < test.layout.out * in; ++i) {
        const auto size = static_cast<int>(100 + random.below(28));
        const int code = i % in < in / 2 ? size : -size;
        matrix.codes[static_cast<size_t>(i)] = static_cast<int8_t>(code);
        expected[static_cast<size_t>(i / in)] += code * static_cast<int64_t>(x[i % in]);
    }
    matrix.pack(machine.context());
    Buffer y(DType::f32, test.layout.out);
    const ops::QuantizedWeight weight{test.layout, 1.0f, test.rounding, matrix.view(), {}};
    cuda::gemm_quantized(machine.context(), x.view({1, in}), weight, {}, DType::bf16, overwrite,
                         y.view({1, test.layout.out}));
    for (int64_t column = 0; column < test.layout.out; ++column) {
        CHECK(static_cast<int64_t>(y[column]) == expected[static_cast<size_t>(column)]);
    }
}

TEST_CASE("cuda: columns of x are taken in the order of the packed ones") {
    for (const DType dtype : testing::kFloatTypes) {
        check_matmul({.layout = {WeightFormat::int4, 24, 160, 32, true, DType::f32},
                      .rounding = {.code = ActivationFormat::int8},
                      .activation = dtype,
                      .product = dtype,
                      .reorders = true});
        check_matmul({.layout = {WeightFormat::int4, 24, 160, 32, true, DType::f32},
                      .activation = dtype,
                      .product = dtype,
                      .reorders = true});
    }
}

TEST_CASE("cuda: quantized products of sparse matrices match double precision, at all ends") {
    for (const WeightFormat code : kSparseFormats) {
        for (const DType product : partners_of(code)) {
            for (const int64_t tokens : {1, 9, 16, 17, 66}) {
                check_matmul({.layout = {code, 70, 264, 264, false, DType::bf16},
                              .activation = product,
                              .product = product,
                              .tokens = tokens,
                              .output = accumulate,
                              .has_bias = true});
            }
            // Less than a step, than a tile and than a row's byte of places; groups; a gap behind
            // each row, whose values are multiplied with nothing.
            check_matmul({.layout = {code, 5, 4, 4, false, DType::f32},
                          .activation = product,
                          .product = product,
                          .tokens = 2});
            check_matmul({.layout = {code, 33, 164, 32, false, DType::f16},
                          .activation = DType::f32,
                          .product = product,
                          .tokens = 20,
                          .gap = 3,
                          .one_row_of_scales = true,
                          .factor = 0.5f});
            check_matmul({.layout = {code, 24, 160, 160, false, DType::f32},
                          .activation = product,
                          .product = product,
                          .reorders = true});
        }
    }
    for (const ops::ActivationRounding& rounding :
         {ops::ActivationRounding{.code = ActivationFormat::float8},
          ops::ActivationRounding{.code = ActivationFormat::float8, .group_size = 64}}) {
        for (const DType product : {DType::f32, DType::bf16, DType::f16}) {
            check_matmul({.layout = {WeightFormat::sparse_float8, 35, 296, 128, false, DType::f32},
                          .rounding = rounding,
                          .activation = product,
                          .product = product,
                          .tokens = 18});
        }
    }
}

TEST_CASE("cuda: quantized products of sparse matrices, in every schedule") {
    under_all_schedules([] {
        for (const auto& [code, product] : {std::pair{WeightFormat::sparse_bfloat16, DType::bf16},
                                            {WeightFormat::sparse_float8, DType::f16},
                                            {WeightFormat::sparse_float16, DType::f32}}) {
            for (const int64_t tokens : {3, 66}) {
                check_matmul({.layout = {code, 70, 452, 128, false, DType::f32},
                              .activation = product,
                              .product = product,
                              .tokens = tokens});
            }
        }
    });
}

TEST_CASE("cuda: of x only what sparse matrices keep a weight for is multiplied") {
    testing::Machine machine(1);
    for (const WeightFormat code : kSparseFormats) {
        for (const DType product : partners_of(code)) {
            const Case test{.layout = {code, 20, 96, 96, false, DType::f32}};
            testing::Random random(5);
            Matrix matrix(test, random);
            matrix.pack(machine.context());
            Buffer x(product, random.values(3 * test.layout.in));
            x.set(96 + 5, std::nanf(""));
            Buffer y(product, 3 * test.layout.out);
            const ops::QuantizedWeight weight{test.layout, 1.0f, {}, matrix.view(), {}};
            cuda::gemm_quantized(machine.context(), x.view({3, 96}), weight, {}, product, overwrite,
                                 y.view({3, test.layout.out}));
            int reached = 0;
            for (int64_t i = 0; i < 3 * test.layout.out; ++i) {
                const bool is_kept = matrix.kept->keeps(i % 20, 5);
                CHECK(std::isnan(y[i]) == (i / 20 == 1 && is_kept));
                reached += std::isnan(y[i]);
            }
            CHECK(reached > 0);
            CHECK(reached < 20);
        }
    }
}

TEST_CASE("cuda: sparse matrices take 9/16 of the dense bytes, in float8 5/8") {
    const auto bytes_of = [](WeightFormat code) {
        return cuda::quantized_weight_bytes({code, 1024, 1024, 1024, false, DType::bf16}, {});
    };
    CHECK(bytes_of(WeightFormat::sparse_bfloat16) == 1024 * 1024 * 2 * 9 / 16 + 1024 * 2);
    CHECK(bytes_of(WeightFormat::sparse_float16) == bytes_of(WeightFormat::sparse_bfloat16));
    CHECK(bytes_of(WeightFormat::sparse_float8) == 1024 * 1024 * 5 / 8 + 1024 * 2);
}

TEST_CASE(
    "cuda: groups that do not end with a step, float16 with scales inside, and sparse matrices of "
    "another 16-bit type than x are not taken") {
    const ops::QuantizedLayout layout{WeightFormat::int4, 8, 160, 40, false, DType::f32};
    CHECK(!cuda::can_multiply_quantized(layout, {}, on_device(DType::bf16)));
    const ops::QuantizedLayout whole{WeightFormat::float4, 8, 160, 32, false, DType::f32};
    const ops::ActivationRounding powers{
        .code = ActivationFormat::float4, .group_size = 32, .powers_of_two = true};
    CHECK(cuda::can_multiply_quantized(whole, powers, on_device(DType::bf16)));
    CHECK(!cuda::can_multiply_quantized(whole, powers, on_device(DType::f16)));
    CHECK(!cuda::can_multiply_quantized(whole, {.code = ActivationFormat::float8, .group_size = 40},
                                        on_device(DType::bf16)));
    ops::QuantizedLayout sparse = whole;
    sparse.code = WeightFormat::sparse_float8;
    CHECK(cuda::can_multiply_quantized(sparse, {}, on_device(DType::bf16)));
    sparse.group_size = 48;
    CHECK(!cuda::can_multiply_quantized(sparse, {}, on_device(DType::bf16)));
    sparse.group_size = 160;
    sparse.code = WeightFormat::sparse_bfloat16;
    CHECK(cuda::can_multiply_quantized(sparse, {}, on_device(DType::f32)));
    CHECK(cuda::can_multiply_quantized(sparse, {}, on_device(DType::bf16)));
    CHECK(!cuda::can_multiply_quantized(sparse, {}, on_device(DType::f16)));
    sparse.code = WeightFormat::sparse_float16;
    CHECK(cuda::can_multiply_quantized(sparse, {}, on_device(DType::f16)));
    CHECK(!cuda::can_multiply_quantized(sparse, {}, on_device(DType::bf16)));
    sparse.in = sparse.group_size = 162;
    CHECK(!cuda::can_multiply_quantized(sparse, {}, on_device(DType::f16)));
}

TEST_CASE("cuda: a row's quantized product has the same bits in every batch") {
    testing::Machine machine(1);
    const ops::QuantizedLayout int4{WeightFormat::int4, 40, 336, 64, true, DType::f32};
    const ops::QuantizedLayout sparse{WeightFormat::sparse_float8, 40, 336, 64, false, DType::f32};
    const ops::QuantizedLayout cut{WeightFormat::int8, 40, 616, 616, true, DType::f32};
    const ops::QuantizedLayout small{WeightFormat::float4, 24, 336, 16, false, DType::f32};
    const ops::QuantizedLayout exact{WeightFormat::int8, 40, 616, 616, false, DType::f32};
    struct Way {
        ops::QuantizedLayout layout;
        DType dtype;
        ActivationFormat code = ActivationFormat::compute_type;
    };
    for (const Way& way : {Way{int4, DType::bf16},
                           {int4, DType::f32},
                           {int4, DType::bf16, ActivationFormat::int8},
                           {cut, DType::bf16},
                           {cut, DType::f32},
                           {small, DType::f16},
                           {exact, DType::bf16, ActivationFormat::int8},
                           {sparse, DType::bf16},
                           {sparse, DType::f32}}) {
        const DType dtype = way.dtype;
        const int64_t tokens = 70;
        const Case test{.layout = way.layout,
                        .rounding = {.code = way.code},
                        .activation = dtype,
                        .product = dtype};
        testing::Random random(3);
        Matrix matrix(test, random);
        matrix.pack(machine.context());
        const ops::QuantizedWeight weight{test.layout, 1.0f, test.rounding, matrix.view(), {}};
        Buffer x(dtype, random.values(tokens * test.layout.in));
        Buffer all(dtype, tokens * test.layout.out), one(dtype, test.layout.out);
        const auto multiply = [&](const TensorView& rows, const TensorView& y) {
            cuda::gemm_quantized(machine.context(), rows, weight, {}, dtype, overwrite, y);
        };
        const TensorView rows = x.view({tokens, test.layout.in});
        multiply(rows, all.view({tokens, test.layout.out}));
        for (const int64_t token : {0, 17, 69}) {
            multiply(rows.rows(token, 1), one.view({1, test.layout.out}));
            bool same = true;
            for (int64_t i = 0; i < test.layout.out; ++i) {
                same = same && one[i] == all[token * test.layout.out + i];
            }
            CHECK(same);
        }
    }
}
