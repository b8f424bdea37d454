// Slices of linears: those of all ranks, put together, are the whole, for every storage format.
#include "lib/model/weights/shard.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "kernels/error.h"
#include "kernels/random.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/scheme.h"
#include "lib/model/weights/sparse_bitmask.h"
#include "tests/error_of.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using Strategy = QuantizationStrategy;

constexpr int64_t kOut = 512;
constexpr int64_t kIn = 1024;

QuantizationArguments arguments_of(int bits, Strategy strategy, bool symmetric = true) {
    QuantizationArguments arguments;
    arguments.bits = bits;
    arguments.strategy = strategy;
    arguments.symmetric = symmetric;
    if (strategy == Strategy::group) arguments.group_size = 32;
    return arguments;
}

QuantizationArguments floats(Strategy strategy) {
    QuantizationArguments arguments = arguments_of(8, strategy);
    arguments.kind = NumberKind::floating;
    if (strategy == Strategy::block) arguments.block = QuantizationBlock{16, 32};
    return arguments;
}

QuantizationArguments places() {
    QuantizationArguments arguments = arguments_of(4, Strategy::group);
    arguments.kind = NumberKind::floating;
    return arguments;
}

QuantizationArguments preset(const char* name) { return *find_preset_scheme(name).scheme.weights; }

struct FormatCase {
    const char* format;
    QuantizationArguments arguments;
};

// At least one for every row of the table of formats.
std::vector<FormatCase> cases() {
    std::vector<FormatCase> all = {
        {"int-quantized", arguments_of(8, Strategy::channel)},
        {"int-quantized", arguments_of(8, Strategy::group, false)},
        {"naive-quantized", arguments_of(8, Strategy::tensor)},
        {"float-quantized", floats(Strategy::channel)},
        {"float-quantized", floats(Strategy::tensor)},
        {"float-quantized", floats(Strategy::block)},
        {"fp8-block", floats(Strategy::block)},
        {"nvfp4-pack-quantized", preset("NVFP4A16")},
        {"nvfp4-modelopt", preset("NVFP4A16")},
        {"mxfp4-pack-quantized", preset("MXFP4A16")},
        {"mxfp8-quantized", preset("MXFP8A16")},
        {"awq", arguments_of(4, Strategy::group, false)},
        {"awq", arguments_of(4, Strategy::group)},
        {"awq-gemv", arguments_of(4, Strategy::group, false)},
        {"awq-gemv-fast", arguments_of(4, Strategy::group, false)},
        {"bitsandbytes-4bit", places()},
        {"bitsandbytes-8bit", arguments_of(8, Strategy::channel)},
    };
    for (const int bits : {2, 4, 8}) {
        all.push_back({"pack-quantized", arguments_of(bits, Strategy::group)});
        all.push_back({"pack-quantized", arguments_of(bits, Strategy::group, false)});
        all.push_back({"pack-quantized", arguments_of(bits, Strategy::channel)});
    }
    for (const int bits : {2, 3, 4, 8}) {
        all.push_back({"gptq", arguments_of(bits, Strategy::group, false)});
        all.push_back({"gptq_v2", arguments_of(bits, Strategy::group)});
    }
    return all;
}

Tensor random_matrix(DType type, int64_t rows, int64_t columns) {
    Tensor matrix = Tensor::allocate(type, {rows, columns});
    for (int64_t i = 0; i < rows * columns; ++i) {
        const auto bits = static_cast<int32_t>(mixed_bits(static_cast<uint64_t>(i)) >> 32);
        const float value = static_cast<float>(bits) * 0x1p-31f;
        if (type == DType::f32) {
            matrix.mutable_view().as<float>()[i] = value;
        } else if (type == DType::bf16) {
            matrix.mutable_view().as<BFloat16>()[i] = BFloat16(value);
        } else {
            matrix.mutable_view().as<Float16>()[i] = Float16(value);
        }
    }
    return matrix;
}

std::shared_ptr<const QuantizationConfig> config_of(const QuantizationScheme& scheme) {
    QuantizationConfig::Fields fields;
    fields.groups.push_back({{"Linear"}, scheme});
    return std::make_shared<const QuantizationConfig>(std::move(fields));
}

// One file of tensors, and what reads it.
struct Stored {
    test::TemporaryFolder folder;
    ThreadPool threads{2};
    QuantizationScheme scheme;  // without weights: dense

    explicit Stored(const std::vector<NamedTensor>& tensors) {
        std::vector<TensorToWrite> list;
        for (const NamedTensor& row : tensors) list.push_back({row.name, row.tensor.view()});
        write_safetensors(folder.path() / "model.safetensors", list);
    }
    std::unique_ptr<CheckpointSource> open(CheckpointUse use = CheckpointUse::values) {
        auto source = std::make_unique<CheckpointSource>(Checkpoint::open(folder.path()),
                                                         DType::f32, threads, use);
        if (scheme.weights) source->set_quantization(config_of(scheme));
        return source;
    }
};

LinearSpec spec(ShardAxis axis, std::vector<ShardPiece> pieces = {}) {
    return {"a", kIn, kOut, false, axis, std::move(pieces)};
}

// The indices in the whole matrix of what a rank has, along the axis that is cut.
std::vector<int64_t> indices_in_whole(const LinearSpec& slice) {
    const LinearSpec whole = slice.whole();
    const bool is_output = slice.axis == ShardAxis::output;
    std::vector<ShardPiece> pieces = {is_output ? whole.out : whole.in};
    if (is_output && !slice.pieces.empty()) pieces = slice.pieces;
    std::vector<int64_t> indices;
    int64_t begin = 0;
    for (const ShardPiece& piece : pieces) {
        // Where ranks are more than units, neighbours have the same one.
        const int64_t shares =
            piece.repeats ? std::min<int64_t>(piece.units, slice.shard.ranks) : slice.shard.ranks;
        const int64_t count = piece.size / shares;
        const int64_t share = slice.shard.rank / (slice.shard.ranks / shares);
        for (int64_t i = 0; i < count; ++i) indices.push_back(begin + share * count + i);
        begin += piece.size;
    }
    return indices;
}

// Values of a slice that are not the whole's, bit for bit.
int64_t count_differences(const LinearSpec& slice, const Tensor& values, const Tensor& whole) {
    const bool is_output = slice.axis == ShardAxis::output;
    const std::vector<int64_t> indices = indices_in_whole(slice);
    const auto* const expected = whole.view().as<uint32_t>();
    const auto* const found = values.view().as<uint32_t>();
    int64_t different = 0;
    for (int64_t i = 0; i < slice.out; ++i) {
        for (int64_t j = 0; j < slice.in; ++j) {
            const int64_t row = is_output ? indices[static_cast<size_t>(i)] : i;
            const int64_t column = is_output ? j : indices[static_cast<size_t>(j)];
            different += found[i * slice.in + j] != expected[row * whole.view().dim(1) + column];
        }
    }
    return different;
}

void check_slices(WeightSource& source, const LinearSpec& linear) {
    const Tensor whole = read_values(source, linear);
    for (const int32_t ranks : {2, 4}) {
        for (int32_t rank = 0; rank < ranks; ++rank) {
            const LinearSpec slice = slice_of(linear, {rank, ranks});
            const Tensor values = read_values(source, slice);
            REQUIRE(values.view().dim(0) == slice.out);
            REQUIRE(values.view().dim(1) == slice.in);
            CHECK(count_differences(slice, values, whole) == 0);
        }
    }
}

void check_both_axes(WeightSource& source) {
    check_slices(source, spec(ShardAxis::output));
    check_slices(source, spec(ShardAxis::output, {256, 128, 128}));
    // Heads of 64: eight of queries, and two of keys and values that four ranks share.
    check_slices(source, spec(ShardAxis::output, {{256, 4}, {128, 2, true}, {128, 2, true}}));
    check_slices(source, spec(ShardAxis::input));
}

TEST_CASE("slices: those of all ranks are the whole, for every row of the table of formats") {
    std::set<std::string> seen;
    ThreadPool threads(2);
    const Tensor weight = random_matrix(DType::f32, kOut, kIn);
    for (const FormatCase& row : cases()) {
        CAPTURE(row.format);
        CAPTURE(row.arguments.bits);
        seen.insert(row.format);
        const QuantizedMatrix matrix =
            round_to_nearest(weight.view(), row.arguments, DType::f16, threads);
        Stored stored(pack(matrix, "a", row.format, DType::f16));
        stored.scheme = {row.format, matrix.arguments, {}, {}};
        check_both_axes(*stored.open());
    }
    for (const WeightScheme& scheme : weight_schemes()) CHECK(seen.contains(scheme.name));
}

TEST_CASE("slices: what was copied out of a file stays when the file's pages are given back") {
    const Tensor codes = random_matrix(DType::f32, kOut, kIn);
    Stored stored({{"a.weight", codes}});
    const auto source = stored.open();
    const TensorSlice half = slice_of(spec(ShardAxis::input), {1, 2}).slice();
    const Tensor part = source->read_stored("a.weight", {kOut, kIn / 2}, {DType::f32}, half);
    source->release_stored();
    for (int64_t i = 0; i < part.view().numel(); ++i) {
        REQUIRE(part.view().as<float>()[i] ==
                codes.view().as<float>()[i / (kIn / 2) * kIn + kIn / 2 + i % (kIn / 2)]);
    }
}

TEST_CASE("slices: of dense matrices in every type, as they lie or stored [in, out]") {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        Stored stored({{"a.weight", random_matrix(type, kOut, kIn)}});
        check_both_axes(*stored.open());
        Stored turned({{"a.weight", random_matrix(type, kIn, kOut)}});
        LinearSpec linear = spec(ShardAxis::output, {256, 128, 128});
        linear.order = MatrixOrder::in_out;
        check_slices(*turned.open(), linear);
        linear.axis = ShardAxis::input;
        check_slices(*turned.open(), linear);
    }
}

TEST_CASE("slices: of each piece of an axis, whatever lies behind it") {
    // Three pieces of 4, 2 and 6, with 1 x 2 values each; the second has one unit, which both have.
    std::vector<float> values(24);
    std::iota(values.begin(), values.end(), 0.0f);
    const Tensor stored =
        Tensor::borrow(ConstTensorView(values.data(), DType::f32, {12, 1, 2}), nullptr);
    const std::vector<ShardPiece> pieces = {{4, 2}, {2, 1, true}, {6, 6}};
    const Tensor second = cut(stored, {{1, 2}, 0, pieces});
    REQUIRE(second.view().dim(0) == 2 + 2 + 3);
    CHECK(second.view().dim(2) == 2);
    CHECK(share_of(pieces, {1, 2}) == 7);
    CHECK(share_of(pieces, {}) == 12);
    const std::vector<float> found(second.view().as<float>(), second.view().as<float>() + 14);
    CHECK(found == std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23});
}

TEST_CASE("slices: of two of four under a bit mask") {
    Tensor matrix = random_matrix(DType::bf16, kOut, kIn);
    for (int64_t i = 0; i < kOut * kIn; i += 2) {
        matrix.mutable_view().as<BFloat16>()[i] = BFloat16(0.0f);
    }
    Stored stored(pack_sparse(matrix, "a"));
    check_both_axes(*stored.open());
    LinearSpec odd = spec(ShardAxis::input);
    odd.in = 8 * 3;
    const auto source = stored.open();
    CHECK(test::error_of(ErrorKind::bad_config,
                         [&] {
                             read_sparse(*source, slice_of(odd, {0, 2}), {DType::bf16});
                         })
              .find("24 inputs cannot be divided among 2 ranks in multiples of 8") !=
          std::string::npos);
}

TEST_CASE("slices: random weights are those of the whole, dense and quantized") {
    ThreadPool threads(2);
    DummySource dense(7, DType::f32, threads);
    check_both_axes(dense);
    // As they are multiplied: what each rank's rows give for one input is what the whole gives.
    for (const FormatCase& row : cases()) {
        CAPTURE(row.format);
        DummySource source(7, DType::f32, threads);
        source.set_quantization(config_of({row.format, row.arguments, {}, {}}));
        const LinearSpec linear = spec(ShardAxis::output);
        const Tensor x = random_matrix(DType::f32, 1, kIn);
        const auto product = [&](const LinearSpec& part) {
            const LinearWeight weight = load_linear(source, part);
            ScratchArena scratch;
            Context context;
            context.scratch = &scratch;
            context.threads = &threads;
            std::vector<float> y(static_cast<size_t>(part.out));
            weight.apply(context, x.view(), ops::MatmulOutput::overwrite,
                         TensorView(y.data(), DType::f32, {1, part.out}));
            return y;
        };
        const std::vector<float> whole = product(linear);
        std::vector<float> joined;
        for (int32_t rank = 0; rank < 2; ++rank) {
            const std::vector<float> y = product(slice_of(linear, {rank, 2}));
            joined.insert(joined.end(), y.begin(), y.end());
        }
        CHECK(joined == whole);
    }
}

TEST_CASE("slices: headers and no files at all say the same sizes as values") {
    Stored stored({{"a.weight", random_matrix(DType::f32, kOut, kIn)}});
    ThreadPool threads(2);
    for (const ShardAxis axis : {ShardAxis::output, ShardAxis::input}) {
        const LinearSpec slice = slice_of(spec(axis), {1, 4});
        const size_t bytes = kOut * kIn * sizeof(float) / 4;
        CHECK(load_linear(*stored.open(), slice).bytes() == bytes);
        CHECK(load_linear(*stored.open(CheckpointUse::headers), slice).bytes() == bytes);
        MetaWeightSource meta(DType::f32, DType::f32, threads);
        CHECK(load_linear(meta, slice).bytes() == bytes);
    }
}

TEST_CASE("slices: biases are cut with outputs, and of inputs the first rank's") {
    Tensor bias = Tensor::allocate(DType::f32, {kOut});
    for (int64_t i = 0; i < kOut; ++i) {
        bias.mutable_view().as<float>()[i] = static_cast<float>(i);
    }
    Tensor zeros = Tensor::allocate(DType::f32, {kOut, kIn});
    std::memset(zeros.mutable_view().data, 0, zeros.bytes());
    Stored stored({{"a.weight", zeros}, {"a.bias", bias}});
    const auto source = stored.open();
    const auto sum_of = [&](ShardAxis axis, int32_t rank) {
        LinearSpec linear = spec(axis);
        linear.bias = true;
        const LinearSpec slice = slice_of(linear, {rank, 2});
        const LinearWeight weight = load_linear(*source, slice);
        ScratchArena scratch;
        Context context;
        context.scratch = &scratch;
        context.threads = &stored.threads;
        const Tensor x = random_matrix(DType::f32, 1, slice.in);
        std::vector<float> y(static_cast<size_t>(slice.out));
        weight.apply(context, x.view(), ops::MatmulOutput::overwrite,
                     TensorView(y.data(), DType::f32, {1, slice.out}));
        return y;
    };
    CHECK(sum_of(ShardAxis::output, 1).front() == kOut / 2);
    CHECK(sum_of(ShardAxis::input, 0).back() == kOut - 1);
    CHECK(sum_of(ShardAxis::input, 1).back() == 0.0f);
}

TEST_CASE("slices: a dimension that ranks or groups do not divide is refused by name") {
    CHECK(test::error_of(ErrorKind::bad_config, [] {
              slice_of(spec(ShardAxis::output), {0, 3});
          }) == "a: 512 outputs cannot be divided among 3 ranks");
    CHECK(test::error_of(ErrorKind::bad_config, [] {
              slice_of(spec(ShardAxis::output, {506, 6}), {0, 4});
          }) == "a: 506 outputs cannot be divided among 4 ranks");
    QuantizationArguments arguments = arguments_of(4, Strategy::group);
    arguments.group_size = 512;
    ThreadPool threads(2);
    const QuantizedMatrix matrix = round_to_nearest(random_matrix(DType::f32, kOut, kIn).view(),
                                                    arguments, DType::f16, threads);
    Stored stored(pack(matrix, "a", "pack-quantized", DType::f16));
    stored.scheme = {"pack-quantized", arguments, {}, {}};
    const auto source = stored.open();
    CHECK(test::error_of(ErrorKind::bad_config,
                         [&] {
                             load_linear(*source, slice_of(spec(ShardAxis::input), {0, 4}));
                         }) ==
          "a: 1024 inputs cannot be divided among 4 ranks in multiples of 512, which are stored "
          "together");
}

TEST_CASE("slices: groups of columns in an order of their own cannot be cut by inputs") {
    QuantizationArguments arguments = arguments_of(4, Strategy::group);
    arguments.actorder = ActivationOrder::group;
    ThreadPool threads(2);
    QuantizedMatrix matrix = round_to_nearest(random_matrix(DType::f32, kOut, kIn).view(),
                                              arguments, DType::f16, threads);
    matrix.group_index = Tensor::allocate(DType::i32, {kIn});
    for (int32_t i = 0; i < kIn; ++i) {
        matrix.group_index.mutable_view().as<int32_t>()[i * 37 % kIn] = i / 32;
    }
    Stored stored(pack(matrix, "a", "gptq", DType::f16));
    stored.scheme = {"gptq", arguments, {}, {}};
    const auto source = stored.open();
    check_slices(*source, spec(ShardAxis::output));
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              read_values(*source, slice_of(spec(ShardAxis::input), {0, 2}));
          }).find("order of their own") != std::string::npos);
}

}  // namespace
}  // namespace nvllm
