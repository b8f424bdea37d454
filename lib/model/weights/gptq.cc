// GPTQ's layout (AutoGPTQ, GPTQModel): inputs packed down the columns, zero points along the rows;
// the first version stores zero points less one.
#include <fmt/format.h>

#include <numeric>

#include "kernels/error.h"
#include "lib/model/weights/bit_string.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kColumnsPerRange = 16;

enum class StoredZeros : uint8_t { less_one, as_they_are };

int middle(int bits) { return 1 << (bits - 1); }

void unpack_weight(const QuantizedReader& reader, const Tensor& packed, QuantizedMatrix& matrix) {
    const int64_t in = reader.in();
    const BitString fields{reader.weights().bits, reader.out()};
    auto* codes = matrix.codes.mutable_view().as<int8_t>();
    reader.threads().parallel_for(
        reader.out(), kColumnsPerRange, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = 0; i < in; ++i) {
                for (int64_t row = begin; row < end; ++row) {
                    const auto field = fields.get(packed.view().as<uint32_t>() + row, i);
                    codes[row * in + i] =
                        static_cast<int8_t>(static_cast<int>(field) - middle(fields.bits));
                }
            }
        });
}

void unpack_zeros(const QuantizedReader& reader, const Tensor& packed, StoredZeros stored,
                  QuantizedMatrix& matrix) {
    const BitString fields{reader.weights().bits};
    const ScaleShape shape = reader.scales();
    const int64_t words = packed.view().dim(1);
    const uint32_t one = stored == StoredZeros::less_one ? 1 : 0;
    const uint32_t mask = (1u << fields.bits) - 1u;
    auto* zeros = matrix.zero_points.mutable_view().as<int8_t>();
    for (int64_t group = 0; group < shape.columns; ++group) {
        for (int64_t row = 0; row < shape.rows; ++row) {
            const uint32_t zero =
                (fields.get(packed.view().as<uint32_t>() + group * words, row) + one) & mask;
            zeros[row * shape.columns + group] =
                static_cast<int8_t>(static_cast<int>(zero) - middle(fields.bits));
        }
    }
}

// What says no more than column / group_size is dropped.
bool follows_columns(const QuantizedReader& reader, const Tensor& index) {
    const ScaleIndex plain(reader.weights(), reader.out(), reader.in());
    for (int64_t column = 0; column < reader.in(); ++column) {
        if (index.view().as<int32_t>()[column] != column / plain.columns()) return false;
    }
    return true;
}

QuantizedMatrix read(const QuantizedReader& reader, StoredZeros stored) {
    const BitString fields{reader.weights().bits};
    const Tensor weight = reader.read("qweight", {fields.words(reader.in()), reader.out()},
                                      {DType::i32}, MatrixOrder::in_out);
    const Tensor zeros =
        reader.read("qzeros", {reader.scales().columns, fields.words(reader.out())}, {DType::i32},
                    MatrixOrder::in_out);
    QuantizedMatrix matrix = reader.make_matrix();
    matrix.scales = reader.read_turned_scales("scales");
    matrix.zero_points = reader.make_zero_points();
    if (reader.has("g_idx")) matrix.group_index = reader.read_group_index("g_idx");
    if (!reader.has_values()) {
        if (reader.weights().actorder != ActivationOrder::group) matrix.group_index = {};
        return matrix;
    }
    unpack_weight(reader, weight, matrix);
    unpack_zeros(reader, zeros, stored, matrix);
    if (!matrix.group_index.empty() && follows_columns(reader, matrix.group_index)) {
        matrix.group_index = {};
    }
    return matrix;
}

Tensor pack_weight(const QuantizedMatrix& matrix) {
    const BitString fields{matrix.arguments.bits, matrix.out()};
    Tensor packed = Tensor::allocate(DType::i32, {fields.words(matrix.in()), matrix.out()});
    for (int64_t row = 0; row < matrix.out(); ++row) {
        for (int64_t i = 0; i < matrix.in(); ++i) {
            const int code = matrix.codes.view().as<int8_t>()[row * matrix.in() + i];
            fields.set(packed.mutable_view().as<uint32_t>() + row, i,
                       static_cast<uint32_t>(code + middle(fields.bits)));
        }
    }
    return packed;
}

Tensor pack_zeros(const QuantizedMatrix& matrix, StoredZeros stored) {
    const BitString fields{matrix.arguments.bits};
    const int64_t groups = matrix.scales.view().dim(1);
    const int64_t words = fields.words(matrix.out());
    Tensor packed = Tensor::allocate(DType::i32, {groups, words});
    for (int64_t group = 0; group < groups; ++group) {
        for (int64_t row = 0; row < matrix.out(); ++row) {
            const int zero = matrix.zero_points.empty()
                                 ? 0
                                 : matrix.zero_points.view().as<int8_t>()[row * groups + group];
            const int less = stored == StoredZeros::less_one ? 1 : 0;
            fields.set(packed.mutable_view().as<uint32_t>() + group * words, row,
                       static_cast<uint32_t>(zero + middle(fields.bits) - less));
        }
    }
    return packed;
}

Tensor index_of(const QuantizedMatrix& matrix) {
    if (!matrix.group_index.empty()) return matrix.group_index;
    const ScaleIndex index(matrix);
    Tensor columns = Tensor::allocate(DType::i32, {matrix.in()});
    for (int64_t i = 0; i < matrix.in(); ++i) {
        columns.mutable_view().as<int32_t>()[i] = static_cast<int32_t>(i / index.columns());
    }
    return columns;
}

std::vector<NamedTensor> pack(const QuantizedMatrix& matrix, const std::string& linear,
                              StoredZeros stored) {
    if (const char* const why = gptq_refuses(matrix.arguments, matrix.out(), matrix.in())) {
        throw Error(ErrorKind::bad_data, linear + ": " + why);
    }
    return {{linear + ".qweight", pack_weight(matrix)},
            {linear + ".qzeros", pack_zeros(matrix, stored)},
            {linear + ".scales", turned_halves(matrix.scales)},
            {linear + ".g_idx", index_of(matrix)}};
}

}  // namespace

ShardGranularity gptq_granularity(const QuantizationArguments& arguments) {
    const int64_t fields = 32 / std::gcd(32, arguments.bits);
    return scale_granularity(arguments).with({fields, fields});
}

const char* gptq_refuses(const QuantizationArguments& arguments, int64_t out, int64_t in) {
    const int bits = arguments.bits;
    const bool has_bits = bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (arguments.kind != NumberKind::integer || !has_bits) {
        return "GPTQ stores integers of 2, 3, 4 or 8 bits only";
    }
    if (arguments.strategy != QuantizationStrategy::group &&
        arguments.strategy != QuantizationStrategy::channel) {
        return "GPTQ has scales of groups or of whole rows only";
    }
    const bool fills_words = in * bits % 32 == 0 && out * bits % 32 == 0;
    return fills_words ? nullptr : "GPTQ packs inputs and outputs in whole words of 32 bits";
}

QuantizedMatrix read_gptq(const QuantizedReader& reader) {
    return read(reader, StoredZeros::less_one);
}
QuantizedMatrix read_gptq_true_zeros(const QuantizedReader& reader) {
    return read(reader, StoredZeros::as_they_are);
}
std::vector<NamedTensor> pack_gptq(const QuantizedMatrix& matrix, const std::string& linear,
                                   DType) {
    return pack(matrix, linear, StoredZeros::less_one);
}
std::vector<NamedTensor> pack_gptq_true_zeros(const QuantizedMatrix& matrix,
                                              const std::string& linear, DType) {
    return pack(matrix, linear, StoredZeros::as_they_are);
}

}  // namespace nvllm
