// bitsandbytes' files: 4 bits as places in a table (nf4, fp4) under scales of blocks, which may be
// quantized themselves, and int8 rows under their largest magnitudes (LLM.int8).
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kCodes = 16;         // of the table of weights
constexpr int64_t kNestedCodes = 256;  // of the table of scales
constexpr int64_t kMostBlock = 4096;
constexpr int64_t kMostStateBytes = 4096;
constexpr float kMostInt8 = 127.0f;

// What the file says beside its tensors.
struct State {
    int64_t block = 64;
    int64_t nested_block = 256;
    float nested_offset = 0.0f;
};

const char* state_suffix(const QuantizedReader& reader) {
    constexpr const char* kFloat4 = "weight.quant_state.bitsandbytes__fp4";
    return reader.has(kFloat4) ? kFloat4 : "weight.quant_state.bitsandbytes__nf4";
}

State read_state(const QuantizedReader& reader) {
    const char* const suffix = state_suffix(reader);
    const int64_t bytes = reader.count_of(suffix);
    if (bytes == 0 || bytes > kMostStateBytes) {
        reader.refuse(suffix, "is missing or too long; is the file one of bitsandbytes?");
    }
    const Tensor text = reader.read_whole_flat(suffix, bytes, {DType::u8});
    State state;
    state.block = *reader.weights().group_size;
    if (!reader.has_values()) return state;
    const nlohmann::json object =
        parse_json({text.view().as<char>(), static_cast<size_t>(bytes)}, reader.place(suffix));
    const auto size = [&](const char* key, int64_t absent) {
        const auto found = object.find(key);
        if (found == object.end()) return absent;
        const int64_t value = found->is_number_integer() ? found->get<int64_t>() : 0;
        if (value < 2 || value > kMostBlock || value % 2 != 0) {
            reader.refuse(suffix, fmt::format("says that \"{}\" is {}; an even number to {} is "
                                              "expected",
                                              key, found->dump(), kMostBlock));
        }
        return value;
    };
    if (!object.is_object()) reader.refuse(suffix, "is no JSON object");
    state.block = size("blocksize", state.block);
    state.nested_block = size("nested_blocksize", state.nested_block);
    const auto offset = object.find("nested_offset");
    if (offset != object.end() && offset->is_number()) state.nested_offset = *offset;
    return state;
}

// As many as there are values of this tensor, in blocks; without values the sizes of blocks are not
// known, and as many as there are.
int64_t blocks_of(const QuantizedReader& reader, const char* suffix, int64_t values,
                  int64_t block) {
    return reader.has_values() ? (values + block - 1) / block : reader.count_of(suffix);
}

// Largest magnitudes of blocks of weights, float32 [blocks].
Tensor read_magnitudes(const QuantizedReader& reader, const State& state, int64_t values) {
    constexpr const char* kName = "weight.absmax";
    constexpr const char* kOuter = "weight.nested_absmax";
    const int64_t blocks = blocks_of(reader, kName, values, state.block);
    if (!reader.has(kOuter)) return reader.read_whole_scales(kName, blocks);
    const Tensor codes = reader.read_whole_flat(kName, blocks, {DType::u8});
    const Tensor table = reader.read_whole_scales("weight.nested_quant_map", kNestedCodes);
    const Tensor outer =
        reader.read_whole_scales(kOuter, blocks_of(reader, kOuter, blocks, state.nested_block));
    if (!reader.has_values()) return table;
    Tensor magnitudes = Tensor::allocate(DType::f32, {blocks});
    for (int64_t i = 0; i < blocks; ++i) {
        magnitudes.mutable_view().as<float>()[i] =
            table.view().as<float>()[codes.view().as<uint8_t>()[i]] *
                outer.view().as<float>()[i / state.nested_block] +
            state.nested_offset;
    }
    return magnitudes;
}

Tensor unpack(const QuantizedReader& reader, const Tensor& packed) {
    const LinearSpec whole = reader.whole();
    Tensor codes = Tensor::allocate(DType::i8, {whole.out, whole.in});
    const auto* const from = packed.view().as<uint8_t>();
    auto* const to = codes.mutable_view().as<int8_t>();
    reader.threads().parallel_for(whole.out, 8, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin * whole.in; i < end * whole.in; ++i) {
            to[i] = static_cast<int8_t>(i % 2 == 0 ? from[i / 2] >> 4 : from[i / 2] & 15);
        }
    });
    return codes;
}

}  // namespace

// A rank reads all of it and cuts its own part.
ShardGranularity bitsandbytes_granularity(const QuantizationArguments&) { return {}; }

QuantizedMatrix read_bitsandbytes4(const QuantizedReader& reader) {
    const LinearSpec whole = reader.whole();
    const int64_t values = whole.out * whole.in;
    const State state = read_state(reader);
    const Tensor packed = reader.read_whole_flat("weight", (values + 1) / 2, {DType::u8});
    const Tensor table = reader.read_whole_scales("weight.quant_map", kCodes);
    const Tensor magnitudes = read_magnitudes(reader, state, values);
    if (!reader.has_values()) {
        QuantizedMatrix matrix = reader.make_matrix();
        matrix.scales = reader.make_scales();
        matrix.table.assign(kCodes, 0.0f);
        return matrix;
    }
    // Blocks run on from row to row: what shares a scale in every row may be fewer columns.
    const int64_t columns = std::gcd(reader.in(), state.block);
    Tensor scales = Tensor::allocate(DType::f32, {whole.out, whole.in / columns});
    for (int64_t i = 0; i < scales.view().numel(); ++i) {
        scales.mutable_view().as<float>()[i] =
            magnitudes.view().as<float>()[i * columns / state.block];
    }
    QuantizedMatrix matrix = reader.make_matrix(reader.own(unpack(reader, packed)));
    matrix.arguments.group_size = columns;
    matrix.scales = reader.own(scales);
    matrix.table.assign(table.view().as<float>(), table.view().as<float>() + kCodes);
    return matrix;
}

QuantizedMatrix read_bitsandbytes8(const QuantizedReader& reader) {
    const Tensor weight = reader.read("weight", {reader.out(), reader.in()}, {DType::i8});
    constexpr const char* kFormat = "weight_format";
    if (reader.has(kFormat)) {
        const Tensor format = reader.read_whole_flat(kFormat, 1, {DType::u8});
        if (reader.has_values() && *format.view().as<uint8_t>() != 0) {
            reader.refuse(kFormat, "is not 0; weights are read row by row alone");
        }
    }
    QuantizedMatrix matrix = reader.make_matrix(weight);
    matrix.scales = reader.read_scales("SCB", {DType::f32});
    if (!reader.has_values()) return matrix;
    for (int64_t i = 0; i < matrix.scales.view().numel(); ++i) {
        matrix.scales.mutable_view().as<float>()[i] /= kMostInt8;
    }
    return matrix;
}

std::vector<NamedTensor> pack_bitsandbytes4(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType) {
    const QuantizationArguments& arguments = matrix.arguments;
    const int64_t values = matrix.out() * matrix.in();
    const bool has_blocks = arguments.strategy == QuantizationStrategy::group &&
                            matrix.in() % *arguments.group_size == 0 &&
                            *arguments.group_size % 2 == 0 && matrix.group_index.empty();
    if (arguments.bits != 4 || arguments.kind != NumberKind::floating || !has_blocks) {
        throw Error(ErrorKind::bad_data,
                    linear + ": bitsandbytes has blocks of even sizes, of places in a table");
    }
    Tensor weight = Tensor::allocate(DType::u8, {values / 2, 1});
    const auto* const codes = matrix.codes.view().as<uint8_t>();
    for (int64_t i = 0; i < values / 2; ++i) {
        weight.mutable_view().as<uint8_t>()[i] =
            static_cast<uint8_t>((codes[2 * i] & 15) << 4 | (codes[2 * i + 1] & 15));
    }
    Tensor table = Tensor::allocate(DType::f32, {kCodes});
    for (int64_t i = 0; i < kCodes; ++i) {
        table.mutable_view().as<float>()[i] =
            matrix.table.empty() ? dequantize_code(arguments, static_cast<int8_t>(i), 1.0f)
                                 : matrix.table[static_cast<size_t>(i)];
    }
    const std::string state = nlohmann::json{{"quant_type", "fp4"},
                                             {"blocksize", *arguments.group_size},
                                             {"dtype", "float32"},
                                             {"shape", {matrix.out(), matrix.in()}}}
                                  .dump();
    Tensor text = Tensor::allocate(DType::u8, {static_cast<int64_t>(state.size())});
    std::copy(state.begin(), state.end(), text.mutable_view().as<char>());
    Tensor magnitudes = Tensor::allocate(DType::f32, {matrix.scales.view().numel()});
    std::copy_n(matrix.scales.view().as<float>(), matrix.scales.view().numel(),
                magnitudes.mutable_view().as<float>());
    return {{linear + ".weight", weight},
            {linear + ".weight.absmax", magnitudes},
            {linear + ".weight.quant_map", table},
            {linear + ".weight.quant_state.bitsandbytes__fp4", text}};
}

std::vector<NamedTensor> pack_bitsandbytes8(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType) {
    const QuantizationArguments& arguments = matrix.arguments;
    if (arguments.bits != 8 || arguments.kind != NumberKind::integer || !arguments.symmetric ||
        arguments.strategy != QuantizationStrategy::channel) {
        throw Error(ErrorKind::bad_data,
                    linear + ": LLM.int8 has symmetric rows of 8 bits and no others");
    }
    Tensor magnitudes = Tensor::allocate(DType::f32, {matrix.out()});
    for (int64_t i = 0; i < matrix.out(); ++i) {
        magnitudes.mutable_view().as<float>()[i] = matrix.scales.view().as<float>()[i] * kMostInt8;
    }
    Tensor format = Tensor::allocate(DType::u8, {1});
    return {{linear + ".weight", matrix.codes},
            {linear + ".SCB", magnitudes},
            {linear + ".weight_format", format}};
}

}  // namespace nvllm
