// compressed-tensors' pack-quantized: integers of 1 to 8 bits in 32-bit words along the input.
#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "kernels/error.h"
#include "lib/model/weights/bit_string.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kRowsPerRange = 8;

// Fields hold code + 2^(bits - 1).
int8_t from_field(uint32_t field, int bits) {
    return static_cast<int8_t>(static_cast<int>(field) - (1 << (bits - 1)));
}
uint32_t to_field(int8_t code, int bits) { return static_cast<uint32_t>(code + (1 << (bits - 1))); }

// Eight fields of 4 bits, each in a byte of its own, less 8; no byte borrows from the next.
uint64_t unpack_nibbles(uint32_t word) {
    uint64_t bytes = word;
    bytes = (bytes | bytes << 16) & 0x0000ffff0000ffff;
    bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ff;
    bytes = (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0f;
    return ((bytes | 0x8080808080808080) - 0x0808080808080808) ^ 0x8080808080808080;
}

// Both widths that checkpoints mostly have are unpacked a word at a time.
void unpack_row(const BitString& fields, const uint32_t* words, int64_t count, int8_t* codes) {
    int64_t done = 0;
    if (fields.bits == 4) {
        for (; done + 8 <= count; done += 8) {
            const uint64_t eight = unpack_nibbles(words[done / 8]);
            std::memcpy(codes + done, &eight, sizeof(eight));
        }
    } else if (fields.bits == 8) {
        for (; done + 4 <= count; done += 4) {
            const uint32_t four = words[done / 4] ^ 0x80808080u;
            std::memcpy(codes + done, &four, sizeof(four));
        }
    }
    for (; done < count; ++done) codes[done] = from_field(fields.get(words, done), fields.bits);
}

void unpack_rows(const QuantizedReader& reader, const Tensor& packed, const BitString& fields,
                 QuantizedMatrix& matrix) {
    const int64_t words = packed.view().dim(1);
    const auto* from = packed.view().as<uint32_t>();
    auto* codes = matrix.codes.mutable_view().as<int8_t>();
    reader.threads().parallel_for(
        reader.out(), kRowsPerRange, [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row) {
                unpack_row(fields, from + row * words, reader.in(), codes + row * reader.in());
            }
        });
}

// Older writers let no field cross a word; the number of words tells.
BitString layout_of(const QuantizedReader& reader) {
    BitString fields{reader.weights().bits, 1, false};
    BitString whole = fields;
    whole.whole = true;
    const bool is_whole = reader.source_has_shape(
        "weight_packed", {reader.whole().out, whole.words(reader.whole().in)});
    return is_whole ? whole : fields;
}

void read_shape(const QuantizedReader& reader) {
    const Tensor shape = reader.read_shape("weight_shape");
    if (!reader.has_values()) return;
    const auto* sizes = shape.view().as<int64_t>();
    const LinearSpec whole = reader.whole();
    if (sizes[0] != whole.out || sizes[1] != whole.in) {
        reader.refuse("weight_shape", fmt::format("is {} x {}; the config says {} x {}", sizes[0],
                                                  sizes[1], whole.out, whole.in));
    }
}

void read_zero_points(const QuantizedReader& reader, bool whole, QuantizedMatrix& matrix) {
    const ScaleShape shape = reader.scales();
    const BitString fields{reader.weights().bits, shape.columns, whole};
    const Tensor packed =
        reader.read("weight_zero_point", {fields.words(shape.rows), shape.columns}, {DType::i32});
    if (!reader.has_values()) return;
    auto* zeros = matrix.zero_points.mutable_view().as<int8_t>();
    for (int64_t row = 0; row < shape.rows; ++row) {
        for (int64_t group = 0; group < shape.columns; ++group) {
            const auto* column = packed.view().as<uint32_t>() + group;
            zeros[row * shape.columns + group] = from_field(fields.get(column, row), fields.bits);
        }
    }
}

NamedTensor pack_zero_points(const QuantizedMatrix& matrix, const std::string& linear) {
    const ConstTensorView& view = matrix.zero_points.view();
    const BitString fields{matrix.arguments.bits, view.dim(1)};
    Tensor packed = Tensor::allocate(DType::i32, {fields.words(view.dim(0)), view.dim(1)});
    for (int64_t row = 0; row < view.dim(0); ++row) {
        for (int64_t group = 0; group < view.dim(1); ++group) {
            fields.set(packed.mutable_view().as<uint32_t>() + group, row,
                       to_field(view.as<int8_t>()[row * view.dim(1) + group], fields.bits));
        }
    }
    return {linear + ".weight_zero_point", packed};
}

Tensor pack_rows(const QuantizedMatrix& matrix) {
    const BitString fields{matrix.arguments.bits};
    const int64_t words = fields.words(matrix.in());
    Tensor packed = Tensor::allocate(DType::i32, {matrix.out(), words});
    auto* to = packed.mutable_view().as<uint32_t>();
    const auto* codes = matrix.codes.view().as<int8_t>();
    for (int64_t row = 0; row < matrix.out(); ++row) {
        for (int64_t i = 0; i < matrix.in(); ++i) {
            fields.set(to + row * words, i, to_field(codes[row * matrix.in() + i], fields.bits));
        }
    }
    return packed;
}

}  // namespace

// Fields of older writers do not cross words, so both numbers of fields must fill them.
ShardGranularity packed_integer_granularity(const QuantizationArguments& arguments) {
    const int64_t crossing = 32 / std::gcd(32, arguments.bits);
    const int64_t fields = std::lcm(crossing, int64_t{32 / arguments.bits});
    return scale_granularity(arguments).with({arguments.symmetric ? 1 : fields, fields});
}

QuantizedMatrix read_packed_integers(const QuantizedReader& reader) {
    const BitString fields = layout_of(reader);
    const Tensor packed =
        reader.read("weight_packed", {reader.out(), fields.words(reader.in())}, {DType::i32});
    read_shape(reader);
    QuantizedMatrix matrix = reader.make_matrix();
    if (reader.has_values()) unpack_rows(reader, packed, fields, matrix);
    matrix.scales = reader.read_scales("weight_scale");
    if (!reader.weights().symmetric) read_zero_points(reader, fields.whole, matrix);
    if (reader.has("weight_g_idx")) matrix.group_index = reader.read_group_index("weight_g_idx");
    return matrix;
}

std::vector<NamedTensor> pack_integers(const QuantizedMatrix& matrix, const std::string& linear,
                                       DType scale_type) {
    if (matrix.arguments.kind != NumberKind::integer) {
        throw Error(ErrorKind::bad_data, linear + ": pack-quantized stores integers only");
    }
    Tensor shape = Tensor::allocate(DType::i64, {2});
    shape.mutable_view().as<int64_t>()[0] = matrix.out();
    shape.mutable_view().as<int64_t>()[1] = matrix.in();
    const ConstTensorView& scales = matrix.scales.view();
    std::vector<NamedTensor> tensors = {
        {linear + ".weight_packed", pack_rows(matrix)},
        {linear + ".weight_scale",
         in_type(matrix.scales, scale_type, {scales.dim(0), scales.dim(1)})},
        {linear + ".weight_shape", shape}};
    if (!matrix.zero_points.empty()) tensors.push_back(pack_zero_points(matrix, linear));
    if (!matrix.group_index.empty()) {
        tensors.push_back({linear + ".weight_g_idx", matrix.group_index});
    }
    return tensors;
}

}  // namespace nvllm
