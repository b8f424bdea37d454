// AutoAWQ's "gemv" and "gemv_fast" layouts: rows are outputs, and scales and zero points of a row
// are filled up to a width that its kernels read at once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.h"
#include "lib/model/weights/bit_string.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kCodesPerWord = 8;
constexpr int kBits = 4;
constexpr int kMiddleCode = 8;  // of unsigned codes
constexpr BitString kFields{kBits};

// Words that the zero points of a row take.
int64_t zero_words(const QuantizationArguments& arguments, int64_t in) {
    const int64_t group = *arguments.group_size;
    const int64_t multiple = group >= 128 ? 1 : 128 / group;
    const int64_t words = (in / group + kCodesPerWord - 1) / kCodesPerWord;
    return (words + multiple - 1) / multiple * multiple;
}

// gemv_fast interleaves four rows, 64 columns of each, in words of 16 bits: where a nibble's weight
// lies, by the word within 64 columns and the nibble.
constexpr int64_t kInterleavedRows = 4;
constexpr int64_t kInterleavedColumns = 64;
struct Place {
    int64_t row;
    int64_t column;
};
Place place_of(int64_t word, int64_t nibble) {
    const int64_t at = (kInterleavedRows * word + nibble) % kInterleavedColumns;
    const int64_t half = at / 32;
    const int64_t rest = at % 32;
    return {kInterleavedRows * word / kInterleavedColumns,
            half * 32 + nibble * 8 + rest / 8 * 2 + rest % 8 / 4};
}

// Runs `body(word, nibble, weight)` over rows of words [begin, end) of a matrix [out, in].
template <typename Body>
void for_each_nibble(int64_t begin, int64_t end, int64_t in, const Body& body) {
    for (int64_t rows = begin; rows < end; ++rows) {
        for (int64_t word = 0; word < in; ++word) {
            for (int64_t nibble = 0; nibble < kInterleavedRows; ++nibble) {
                const Place place = place_of(word % kInterleavedColumns, nibble);
                const int64_t column =
                    word / kInterleavedColumns * kInterleavedColumns + place.column;
                body(rows * in + word, nibble, (rows * kInterleavedRows + place.row) * in + column);
            }
        }
    }
}

void check_sizes(const QuantizedReader& reader, int64_t in_unit, int64_t out_unit) {
    if (reader.in() % in_unit == 0 && reader.out() % out_unit == 0 &&
        reader.whole().in % *reader.weights().group_size == 0) {
        return;
    }
    reader.refuse("qweight", fmt::format("packs {} outputs by {} inputs, and there are {} by {} in "
                                         "groups of {}",
                                         out_unit, in_unit, reader.out(), reader.in(),
                                         *reader.weights().group_size));
}

// The first columns of a float32 matrix, of which a rank has its own.
Tensor without_fill(const QuantizedReader& reader, const Tensor& wide, bool is_turned) {
    const int64_t rows = reader.whole().out;
    const int64_t groups = reader.whole().in / *reader.weights().group_size;
    const int64_t stride = wide.view().dim(1);
    Tensor narrow = Tensor::allocate(DType::f32, {rows, groups});
    for (int64_t i = 0; i < rows * groups; ++i) {
        const int64_t row = i / groups, group = i % groups;
        narrow.mutable_view().as<float>()[i] =
            wide.view().as<float>()[is_turned ? group * stride + row : row * stride + group];
    }
    return reader.own(narrow);
}

Tensor codes_of(const Tensor& zeros) {
    const ConstTensorView& view = zeros.view();
    Tensor codes = Tensor::allocate(DType::i8, {view.dim(0), view.dim(1)});
    for (int64_t i = 0; i < view.numel(); ++i) {
        codes.mutable_view().as<int8_t>()[i] =
            static_cast<int8_t>(view.as<float>()[i] - kMiddleCode);
    }
    return codes;
}

// Zero points [out, groups] out of their products with the scales, which were rounded.
Tensor zeros_of_products(const QuantizedReader& reader, const Tensor& scales,
                         const Tensor& products) {
    constexpr float kMost = 15.0f;
    constexpr float kFar = 0.1f;
    Tensor zeros = Tensor::allocate(DType::f32, {scales.view().dim(0), scales.view().dim(1)});
    for (int64_t i = 0; i < zeros.view().numel(); ++i) {
        const float scale = scales.view().as<float>()[i];
        const float zero = scale == 0.0f ? 0.0f : -products.view().as<float>()[i] / scale;
        const float whole = std::nearbyint(zero);
        if (!(std::abs(zero - whole) < kFar) || whole < 0.0f || whole > kMost) {
            reader.refuse("scaled_zeros",
                          fmt::format("is {} scales at place {}; a whole number of them from -{} "
                                      "to 0 is expected",
                                      -zero, i, kMost));
        }
        zeros.mutable_view().as<float>()[i] = whole;
    }
    return codes_of(zeros);
}

int zero_at(const QuantizedMatrix& matrix, int64_t i) {
    return matrix.zero_points.empty() ? 0 : matrix.zero_points.view().as<int8_t>()[i];
}

bool has_layout(int64_t group_size) {
    return group_size == 32 || group_size == 64 || group_size >= 128;
}

void check_storable(const QuantizedMatrix& matrix, const std::string& linear, int64_t in_unit,
                    int64_t out_unit) {
    const QuantizationArguments& arguments = matrix.arguments;
    const bool has_groups = arguments.strategy == QuantizationStrategy::group &&
                            has_layout(*arguments.group_size) &&
                            matrix.in() % *arguments.group_size == 0;
    if (arguments.kind == NumberKind::integer && arguments.bits == kBits && has_groups &&
        matrix.group_index.empty() && matrix.in() % in_unit == 0 && matrix.out() % out_unit == 0) {
        return;
    }
    throw Error(ErrorKind::bad_data,
                linear + ": AWQ's gemv layouts have no place for a matrix like it");
}

}  // namespace

ShardGranularity awq_gemv_granularity(const QuantizationArguments& arguments) {
    return scale_granularity(arguments).with({1, kCodesPerWord});
}
ShardGranularity awq_gemv_fast_granularity(const QuantizationArguments& arguments) {
    return scale_granularity(arguments).with({kInterleavedRows, kInterleavedColumns});
}

QuantizedMatrix read_awq_gemv(const QuantizedReader& reader) {
    check_sizes(reader, kCodesPerWord, 1);
    const int64_t rows = reader.whole().out;
    const int64_t words = zero_words(reader.weights(), reader.whole().in);
    const Tensor weight =
        reader.read("qweight", {reader.out(), reader.in() / kCodesPerWord}, {DType::i32});
    const Tensor scales = reader.read_whole_scales("scales", rows, words * kCodesPerWord);
    const Tensor zeros = reader.read_whole("qzeros", {rows, words}, {DType::i32});
    QuantizedMatrix matrix = reader.make_matrix();
    matrix.zero_points = reader.make_zero_points();
    matrix.scales = reader.make_scales();
    if (!reader.has_values()) return matrix;
    matrix.scales = without_fill(reader, scales, false);
    Tensor fields = Tensor::allocate(DType::f32, {rows, words * kCodesPerWord});
    for (int64_t i = 0; i < fields.view().numel(); ++i) {
        fields.mutable_view().as<float>()[i] =
            static_cast<float>(kFields.get(zeros.view().as<uint32_t>(), i));
    }
    matrix.zero_points = codes_of(without_fill(reader, fields, false));
    auto* const codes = matrix.codes.mutable_view().as<int8_t>();
    reader.threads().parallel_for(
        reader.out(), kCodesPerWord, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin * reader.in(); i < end * reader.in(); ++i) {
                const uint32_t code = kFields.get(weight.view().as<uint32_t>(), i);
                codes[i] = static_cast<int8_t>(static_cast<int>(code) - kMiddleCode);
            }
        });
    return matrix;
}

QuantizedMatrix read_awq_gemv_fast(const QuantizedReader& reader) {
    check_sizes(reader, kInterleavedColumns, kInterleavedRows);
    const int64_t rows = reader.whole().out;
    const int64_t width = zero_words(reader.weights(), reader.whole().in) * kCodesPerWord;
    const Tensor weight =
        reader.read("qweight", {reader.out() / kInterleavedRows, reader.in()}, {DType::i16});
    const Tensor scales = reader.read_whole_scales("scales", width, rows);
    const Tensor products = reader.read_whole_scales("scaled_zeros", width, rows);
    QuantizedMatrix matrix = reader.make_matrix();
    matrix.zero_points = reader.make_zero_points();
    matrix.scales = reader.make_scales();
    if (!reader.has_values()) return matrix;
    matrix.scales = without_fill(reader, scales, true);
    matrix.zero_points =
        zeros_of_products(reader, matrix.scales, without_fill(reader, products, true));
    auto* const codes = matrix.codes.mutable_view().as<int8_t>();
    reader.threads().parallel_for(
        reader.out() / kInterleavedRows, 2, [&](int64_t begin, int64_t end, int) {
            for_each_nibble(begin, end, reader.in(), [&](int64_t word, int64_t nibble, int64_t at) {
                const int code = weight.view().as<uint16_t>()[word] >> (kBits * nibble) & 15;
                codes[at] = static_cast<int8_t>(code - kMiddleCode);
            });
        });
    return matrix;
}

std::vector<NamedTensor> pack_awq_gemv(const QuantizedMatrix& matrix, const std::string& linear,
                                       DType) {
    check_storable(matrix, linear, kCodesPerWord, 1);
    const int64_t out = matrix.out(), in = matrix.in();
    const int64_t words = zero_words(matrix.arguments, in);
    const int64_t groups = matrix.scales.view().dim(1);
    Tensor weight = Tensor::allocate(DType::i32, {out, in / kCodesPerWord});
    for (int64_t i = 0; i < out * in; ++i) {
        kFields.set(weight.mutable_view().as<uint32_t>(), i,
                    static_cast<uint32_t>(matrix.codes.view().as<int8_t>()[i] + kMiddleCode));
    }
    Tensor zeros = Tensor::allocate(DType::i32, {out, words});
    Tensor scales = Tensor::allocate(DType::f16, {out, words * kCodesPerWord});
    for (int64_t i = 0; i < out * groups; ++i) {
        const int64_t at = i / groups * words * kCodesPerWord + i % groups;
        kFields.set(zeros.mutable_view().as<uint32_t>(), at,
                    static_cast<uint32_t>(zero_at(matrix, i) + kMiddleCode));
        scales.mutable_view().as<Float16>()[at] = Float16(matrix.scales.view().as<float>()[i]);
    }
    return {
        {linear + ".qweight", weight}, {linear + ".qzeros", zeros}, {linear + ".scales", scales}};
}

std::vector<NamedTensor> pack_awq_gemv_fast(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType) {
    check_storable(matrix, linear, kInterleavedColumns, kInterleavedRows);
    const int64_t out = matrix.out(), in = matrix.in();
    const int64_t width = zero_words(matrix.arguments, in) * kCodesPerWord;
    const int64_t groups = matrix.scales.view().dim(1);
    Tensor weight = Tensor::allocate(DType::i16, {out / kInterleavedRows, in});
    auto* const words = weight.mutable_view().as<uint16_t>();
    for_each_nibble(0, out / kInterleavedRows, in, [&](int64_t word, int64_t nibble, int64_t at) {
        const int code = matrix.codes.view().as<int8_t>()[at] + kMiddleCode;
        words[word] = static_cast<uint16_t>(words[word] | code << (kBits * nibble));
    });
    Tensor scales = Tensor::allocate(DType::f16, {width, out});
    Tensor products = Tensor::allocate(DType::f16, {width, out});
    for (int64_t i = 0; i < out * groups; ++i) {
        const int64_t at = i % groups * out + i / groups;
        const auto scale = Float16(matrix.scales.view().as<float>()[i]);
        const auto zero = static_cast<float>(zero_at(matrix, i) + kMiddleCode);
        scales.mutable_view().as<Float16>()[at] = scale;
        products.mutable_view().as<Float16>()[at] = Float16(-static_cast<float>(scale) * zero);
    }
    return {{linear + ".qweight", weight},
            {linear + ".scales", scales},
            {linear + ".scaled_zeros", products}};
}

}  // namespace nvllm
