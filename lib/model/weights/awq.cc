// AutoAWQ's "gemm" layout: rows are inputs, eight outputs in a word, in an order of its own.
#include <array>
#include <cstring>

#include "kernels/error.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kPerWord = 8;
constexpr int kMiddle = 8;  // of unsigned codes
// Which of a word's columns each nibble holds, from the lowest on.
constexpr std::array<int, kPerWord> kColumns = {0, 2, 4, 6, 1, 3, 5, 7};

void unpack_word(uint32_t word, int8_t* to, int64_t stride) {
    for (size_t i = 0; i < kColumns.size(); ++i) {
        const auto code = static_cast<int>((word >> (4 * i)) & 15);
        to[kColumns[i] * stride] = static_cast<int8_t>(code - kMiddle);
    }
}

uint32_t pack_word(const int8_t* from, int64_t stride) {
    uint32_t word = 0;
    for (size_t i = 0; i < kColumns.size(); ++i) {
        word |= static_cast<uint32_t>(from[kColumns[i] * stride] + kMiddle) << (4 * i);
    }
    return word;
}

// Words [rows, columns / 8] to codes [columns, rows].
void unpack_turned(const uint32_t* words, int64_t rows, int64_t columns, int8_t* codes,
                   ThreadPool& threads) {
    threads.parallel_for(columns / kPerWord, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t word = begin; word < end; ++word) {
                unpack_word(words[row * (columns / kPerWord) + word],
                            codes + word * kPerWord * rows + row, rows);
            }
        }
    });
}

// Zero points of symmetric codes.
Tensor middles(const ConstTensorView& scales) {
    Tensor zeros = Tensor::allocate(DType::i8, {scales.dim(0), scales.dim(1)});
    std::memset(zeros.mutable_view().data, 0, zeros.bytes());
    return zeros;
}

Tensor pack_turned(const Tensor& codes) {
    const int64_t columns = codes.view().dim(0);
    const int64_t rows = codes.view().dim(1);
    Tensor packed = Tensor::allocate(DType::i32, {rows, columns / kPerWord});
    auto* words = packed.mutable_view().as<uint32_t>();
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t word = 0; word < columns / kPerWord; ++word) {
            words[row * (columns / kPerWord) + word] =
                pack_word(codes.view().as<int8_t>() + word * kPerWord * rows + row, rows);
        }
    }
    return packed;
}

}  // namespace

ShardGranularity awq_granularity(const QuantizationArguments& arguments) {
    return scale_granularity(arguments).with({kPerWord, 1});
}

QuantizedMatrix read_awq(const QuantizedReader& reader) {
    const int64_t out = reader.out();
    const int64_t groups = reader.scales().columns;
    if (out % kPerWord != 0) reader.refuse("qweight", "packs outputs by eights, which do not fit");
    const Tensor weight =
        reader.read("qweight", {reader.in(), out / kPerWord}, {DType::i32}, MatrixOrder::in_out);
    QuantizedMatrix matrix = reader.make_matrix();
    matrix.scales = reader.read_turned_scales("scales");
    Tensor zeros;
    if (!reader.weights().symmetric || reader.has("qzeros")) {
        zeros = reader.read("qzeros", {groups, out / kPerWord}, {DType::i32}, MatrixOrder::in_out);
        matrix.zero_points = reader.make_zero_points();
    }
    if (!reader.has_values()) return matrix;
    unpack_turned(weight.view().as<uint32_t>(), reader.in(), out,
                  matrix.codes.mutable_view().as<int8_t>(), reader.threads());
    if (!zeros.empty()) {
        unpack_turned(zeros.view().as<uint32_t>(), groups, out,
                      matrix.zero_points.mutable_view().as<int8_t>(), reader.threads());
    }
    return matrix;
}

const char* awq_refuses(const QuantizationArguments& arguments, int64_t out, int64_t) {
    if (arguments.kind != NumberKind::integer || arguments.bits != 4) {
        return "AWQ stores integers of 4 bits only";
    }
    if (arguments.strategy != QuantizationStrategy::group &&
        arguments.strategy != QuantizationStrategy::channel) {
        return "AWQ has scales of groups or of whole rows only";
    }
    if (arguments.actorder == ActivationOrder::group) {
        return "AWQ has no place for groups of columns in another order (--actorder group)";
    }
    return out % kPerWord == 0 ? nullptr : "AWQ packs outputs by eights, which do not fit";
}

std::vector<NamedTensor> pack_awq(const QuantizedMatrix& matrix, const std::string& linear, DType) {
    if (const char* const why = awq_refuses(matrix.arguments, matrix.out(), matrix.in())) {
        throw Error(ErrorKind::bad_data, linear + ": " + why);
    }
    const Tensor zeros =
        matrix.zero_points.empty() ? middles(matrix.scales.view()) : matrix.zero_points;
    return {{linear + ".qweight", pack_turned(matrix.codes)},
            {linear + ".qzeros", pack_turned(zeros)},
            {linear + ".scales", turned_halves(matrix.scales)}};
}

}  // namespace nvllm
