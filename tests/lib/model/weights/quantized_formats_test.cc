// Every format of quantized linears: packed, written to a file, read back, multiplied.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "kernels/random.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/quantized_operands.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/model/weights/scheme.h"
#include "lib/model/weights/sparse_bitmask.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using Strategy = QuantizationStrategy;

QuantizationArguments arguments_of(const char* preset) {
    return *find_preset_scheme(preset).scheme.weights;
}

QuantizationArguments grouped(int bits, int64_t group_size, bool symmetric = true) {
    QuantizationArguments arguments;
    arguments.bits = bits;
    arguments.strategy = Strategy::group;
    arguments.group_size = group_size;
    arguments.symmetric = symmetric;
    return arguments;
}

QuantizationArguments channel(NumberKind kind, Strategy strategy = Strategy::channel) {
    QuantizationArguments arguments;
    arguments.kind = kind;
    arguments.strategy = strategy;
    return arguments;
}

// Places in a table of bitsandbytes: any table of 16 values, here that of E2M1.
QuantizationArguments places() {
    QuantizationArguments arguments = grouped(4, 64);
    arguments.kind = NumberKind::floating;
    return arguments;
}

QuantizationArguments blocks() {
    QuantizationArguments arguments = channel(NumberKind::floating, Strategy::block);
    arguments.block = QuantizationBlock{16, 32};
    return arguments;
}

struct FormatCase {
    const char* format;
    QuantizationArguments arguments;
};

// At least one for every row of the table.
std::vector<FormatCase> cases() {
    std::vector<FormatCase> all = {
        {"int-quantized", channel(NumberKind::integer)},
        {"int-quantized", grouped(4, 32)},
        {"int-quantized", grouped(8, 32, false)},
        {"naive-quantized", channel(NumberKind::integer, Strategy::tensor)},
        {"float-quantized", channel(NumberKind::floating)},
        {"float-quantized", channel(NumberKind::floating, Strategy::tensor)},
        {"float-quantized", blocks()},
        {"fp8-block", blocks()},
        {"nvfp4-pack-quantized", arguments_of("NVFP4A16")},
        {"nvfp4-modelopt", arguments_of("NVFP4A16")},
        {"mxfp4-pack-quantized", arguments_of("MXFP4A16")},
        {"mxfp8-quantized", arguments_of("MXFP8A16")},
        {"awq", grouped(4, 32, false)},
        {"awq", grouped(4, 32)},  // with zero points in the middle
        {"awq-gemv", grouped(4, 32, false)},
        {"awq-gemv", grouped(4, 64, false)},
        {"awq-gemv-fast", grouped(4, 32, false)},
        {"bitsandbytes-4bit", places()},
        {"bitsandbytes-8bit", channel(NumberKind::integer)},
        {"pack-quantized", grouped(4, 20)},  // no kernel has such groups
    };
    for (int bits = 2; bits <= 8; ++bits) {
        all.push_back({"pack-quantized", grouped(bits, 32)});
        all.push_back({"pack-quantized", grouped(bits, 128, false)});
    }
    for (const int bits : {2, 3, 4, 8}) {
        all.push_back({"gptq", grouped(bits, 32, false)});
        all.push_back({"gptq_v2", grouped(bits, 32)});
    }
    return all;
}

Tensor random_weight(int64_t out, int64_t in) {
    Tensor weight = Tensor::allocate(DType::f32, {out, in});
    auto* values = weight.mutable_view().as<float>();
    for (int64_t i = 0; i < out * in; ++i) {
        const uint64_t bits =
            (static_cast<uint64_t>(i) * 6364136223846793005u + 1442695u) * 2862933555777941757u;
        values[i] = static_cast<float>(static_cast<int32_t>(bits >> 33)) * 0x1p-31f - 0.4f;
    }
    return weight;
}

std::string bytes_of(const Tensor& tensor) {
    return tensor.empty() ? std::string() : std::string(tensor.view().as<char>(), tensor.bytes());
}

constexpr int64_t kOut = 64;
constexpr int64_t kIn = 320;

// One linear "a" in a file of its own.
struct Stored {
    test::TemporaryFolder folder;
    ThreadPool threads{2};
    QuantizationScheme scheme;

    Stored(const std::string& format, const QuantizationArguments& arguments) {
        scheme.format = format;
        scheme.weights = arguments;
    }
    void write(const std::vector<NamedTensor>& tensors) {
        std::vector<TensorToWrite> list;
        for (const NamedTensor& row : tensors) list.push_back({row.name, row.tensor.view()});
        write_safetensors(folder.path() / "model.safetensors", list);
    }
    std::unique_ptr<CheckpointSource> open(DType compute_type, CheckpointUse use) {
        auto source = std::make_unique<CheckpointSource>(Checkpoint::open(folder.path()),
                                                         compute_type, threads, use);
        QuantizationConfig::Fields fields;
        fields.groups.push_back({{"Linear"}, scheme});
        source->set_quantization(std::make_shared<const QuantizationConfig>(std::move(fields)));
        return source;
    }
    QuantizedMatrix read() {
        const auto source = open(DType::f32, CheckpointUse::values);
        const LinearSpec name{"a", kIn, kOut};
        const QuantizedReader reader(*source, name, scheme);
        for (const WeightScheme& row : weight_schemes()) {
            if (scheme.format == row.name) return row.read(reader);
        }
        FAIL("no such format");
        return {};
    }
    std::string refusal() {
        try {
            read();
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::bad_data);
            return error.what();
        }
        return "";
    }
};

std::vector<float> apply(const LinearWeight& linear, int64_t tokens, ThreadPool& threads) {
    const DryRun dry({}, DType::f32, threads.num_threads());
    linear.apply(dry.context(), dry.view(DType::f32, {tokens, kIn}), ops::MatmulOutput::overwrite,
                 dry.view(DType::f32, {tokens, linear.out()}));
    ScratchArena scratch(dry.scratch_bytes());
    Context context;
    context.scratch = &scratch;
    context.threads = &threads;
    const Tensor x = random_weight(tokens, kIn);
    std::vector<float> y(static_cast<size_t>(tokens * linear.out()));
    linear.apply(context, x.view(), ops::MatmulOutput::overwrite,
                 TensorView(y.data(), DType::f32, {tokens, linear.out()}));
    CHECK(scratch.num_growths() == 0);
    return y;
}

// Sums of products in double precision.
std::vector<double> expected_product(const Tensor& weight, int64_t tokens) {
    const Tensor x = random_weight(tokens, kIn);
    std::vector<double> y;
    for (int64_t token = 0; token < tokens; ++token) {
        for (int64_t row = 0; row < kOut; ++row) {
            double sum = 0;
            for (int64_t k = 0; k < kIn; ++k) {
                sum += static_cast<double>(x.view().as<float>()[token * kIn + k]) *
                       weight.view().as<float>()[row * kIn + k];
            }
            y.push_back(sum);
        }
    }
    return y;
}

QuantizedMatrix made(const QuantizationArguments& arguments, DType scale_type) {
    ThreadPool threads(2);
    return round_to_nearest(random_weight(kOut, kIn).view(), arguments, scale_type, threads);
}

// Columns of groups all over the row.
void scatter_groups(QuantizedMatrix& matrix) {
    matrix.group_index = Tensor::allocate(DType::i32, {kIn});
    const ScaleIndex index(matrix.arguments, kOut, kIn);
    for (int32_t i = 0; i < kIn; ++i) {
        matrix.group_index.mutable_view().as<int32_t>()[i * 37 % kIn] =
            static_cast<int32_t>(i / index.columns());
    }
}

void check_round_trip(const FormatCase& row, QuantizedMatrix matrix) {
    Stored stored(row.format, matrix.arguments);
    stored.write(pack(matrix, "a", row.format, DType::f16));
    const QuantizedMatrix back = stored.read();
    CHECK(bytes_of(back.codes) == bytes_of(matrix.codes));
    CHECK(bytes_of(back.scales) == bytes_of(matrix.scales));
    CHECK(bytes_of(back.group_index) == bytes_of(matrix.group_index));
    CHECK(back.global_scale == matrix.global_scale);
    if (!matrix.zero_points.empty()) {
        CHECK(bytes_of(back.zero_points) == bytes_of(matrix.zero_points));
    }
    const Tensor dense = dequantized(matrix);
    const LinearSpec name{"a", kIn, kOut};
    const auto source = stored.open(DType::f32, CheckpointUse::values);
    const LinearWeight linear = load_linear(*source, name);
    CHECK(source->unread().empty());
    const std::vector<float> y = apply(linear, 3, stored.threads);
    const std::vector<double> expected = expected_product(dense, 3);
    for (size_t i = 0; i < y.size(); ++i) {
        CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(1));
    }
    const auto headers = stored.open(DType::f32, CheckpointUse::headers);
    CHECK(load_linear(*headers, name).bytes() == linear.bytes());
    CHECK(headers->quantized_linears().native == source->quantized_linears().native);
    CHECK(headers->unread().empty());
}

TEST_CASE("formats: what is packed is read back and multiplied, for every row of the table") {
    std::vector<std::string> seen;
    for (const FormatCase& row : cases()) {
        CAPTURE(row.format);
        CAPTURE(row.arguments.bits);
        seen.emplace_back(row.format);
        check_round_trip(row, made(row.arguments, DType::f16));
    }
    for (const WeightScheme& scheme : weight_schemes()) {
        CHECK_MESSAGE(std::find(seen.begin(), seen.end(), scheme.name) != seen.end(), scheme.name);
    }
}

// Three linears over one input, of unlike magnitudes.
struct SideBySide {
    std::vector<LinearSpec> names = {{"q", kIn, 64}, {"k", kIn, 32}, {"v", kIn, 32}};
    std::vector<NamedTensor> tensors;

    explicit SideBySide(const FormatCase& row) {
        ThreadPool threads(2);
        for (size_t i = 0; i < names.size(); ++i) {
            const Tensor weight = random_weight(names[i].out, kIn);
            auto* values = weight.mutable_view().as<float>();
            std::for_each(values, values + weight.view().numel(),
                          [&](float& value) { value *= static_cast<float>(i + 1); });
            const QuantizedMatrix matrix =
                round_to_nearest(weight.view(), row.arguments, DType::f16, threads);
            for (NamedTensor& tensor : pack(matrix, names[i].name, row.format, DType::f16)) {
                tensors.push_back(std::move(tensor));
            }
        }
    }
    void add_bias(size_t linear) {
        names[linear].bias = true;
        Tensor bias = Tensor::allocate(DType::f32, {names[linear].out});
        for (int64_t i = 0; i < names[linear].out; ++i) {
            bias.mutable_view().as<float>()[i] = static_cast<float>(i) / 8.0f;
        }
        tensors.push_back({names[linear].name + ".bias", bias});
    }
};

// Loads all at once, and holds what they give to what each gives by itself.
void check_side_by_side(const FormatCase& row, const SideBySide& linears, size_t num_parts) {
    constexpr int64_t kTokens = 3;
    Stored stored(row.format, row.arguments);
    stored.write(linears.tensors);
    const auto source = stored.open(DType::bf16, CheckpointUse::values);
    const LinearWeight whole = load_linear(*source, linears.names);
    CHECK(source->unread().empty());
    CHECK(whole.num_parts() == num_parts);
    CHECK(whole.out() == 128);
    const std::vector<float> y = apply(whole, kTokens, stored.threads);
    int64_t column = 0;
    for (const LinearSpec& name : linears.names) {
        const auto other = stored.open(DType::bf16, CheckpointUse::values);
        const std::vector<float> alone = apply(load_linear(*other, name), kTokens, stored.threads);
        for (int64_t token = 0; token < kTokens; ++token) {
            CHECK(std::memcmp(y.data() + token * whole.out() + column,
                              alone.data() + token * name.out,
                              static_cast<size_t>(name.out) * sizeof(float)) == 0);
        }
        column += name.out;
    }
    const auto headers = stored.open(DType::bf16, CheckpointUse::headers);
    CHECK(load_linear(*headers, linears.names).bytes() == whole.bytes());
    CHECK(headers->quantized_linears().native == source->quantized_linears().native);
    CHECK(headers->quantized_linears().widened == source->quantized_linears().widened);
}

TEST_CASE("formats: linears over one input are one product where they can be, with the same bits") {
    for (const FormatCase& row : cases()) {
        CAPTURE(row.format);
        CAPTURE(row.arguments.bits);
        // Those without a kernel are dense; two scales of all values are not one.
        const bool is_apart = row.arguments.group_size == 20 ||
                              row.arguments.strategy == Strategy::tensor_group ||
                              row.arguments == places();
        check_side_by_side(row, SideBySide(row), is_apart ? 3 : 1);
    }
}

TEST_CASE("formats: biases of linears that are one product are all there or none is") {
    const FormatCase row{"awq", grouped(4, 32, false)};
    SideBySide all(row);
    for (size_t i = 0; i < all.names.size(); ++i) all.add_bias(i);
    check_side_by_side(row, all, 1);
    SideBySide some(row);
    some.add_bias(1);
    check_side_by_side(row, some, 3);
}

TEST_CASE("formats: groups of columns in any order") {
    for (const char* format : {"pack-quantized", "gptq"}) {
        CAPTURE(format);
        QuantizationArguments arguments = grouped(4, 32, false);
        arguments.actorder = ActivationOrder::group;
        QuantizedMatrix matrix = made(arguments, DType::f16);
        scatter_groups(matrix);
        check_round_trip({format, arguments}, matrix);
    }
}

TEST_CASE("formats: what no kernel multiplies is widened, and counted") {
    const FormatCase odd{"pack-quantized", grouped(4, 20)};
    Stored stored(odd.format, odd.arguments);
    stored.write(pack(made(odd.arguments, DType::f16), "a", odd.format, DType::f16));
    const auto source = stored.open(DType::bf16, CheckpointUse::values);
    const LinearWeight linear = load_linear(*source, {"a", kIn, kOut});
    CHECK(source->quantized_linears().widened == 1);
    CHECK(source->quantized_linears().native == 0);
    CHECK(linear.bytes() == kIn * kOut * 2);
}

TEST_CASE("formats: a quarter of the bytes at 4 bits") {
    Stored stored("pack-quantized", grouped(4, 32));
    stored.write(pack(made(grouped(4, 32), DType::bf16), "a", "pack-quantized", DType::bf16));
    const auto source = stored.open(DType::bf16, CheckpointUse::values);
    const LinearWeight linear = load_linear(*source, {"a", kIn, kOut});
    // Codes and scales, each in whole lines of memory.
    CHECK(linear.bytes() == kIn * kOut / 2 + kIn / 32 * kOut * 2);
}

// Of a mapped file: what is in memory of this process.
int64_t resident_kib(const std::filesystem::path& file) {
    std::ifstream maps("/proc/self/smaps");
    int64_t kib = 0;
    bool is_file = false;
    for (std::string line; std::getline(maps, line);) {
        const bool is_mapping = line.find('-') < line.find(' ');
        if (is_mapping) is_file = line.ends_with(file.string());
        if (is_file && line.starts_with("Rss:")) kib += std::stoll(line.substr(4));
    }
    return kib;
}

TEST_CASE("formats: of what was packed, nothing stays in memory as it was stored") {
    constexpr int64_t out = 1024, in = 4096;
    QuantizationArguments arguments = channel(NumberKind::integer);
    Stored stored("int-quantized", arguments);
    const QuantizedMatrix matrix =
        round_to_nearest(random_weight(out, in).view(), arguments, DType::bf16, stored.threads);
    stored.write(pack(matrix, "a", "int-quantized", DType::bf16));
    const auto source = stored.open(DType::bf16, CheckpointUse::values);
    const std::filesystem::path file = stored.folder.path() / "model.safetensors";
    const Tensor codes = source->read_stored("a.weight", {out, in}, {DType::i8}, {});
    CHECK(bytes_of(codes) == bytes_of(matrix.codes));
    CHECK(resident_kib(file) >= out * in / 1024);
    const LinearWeight linear = load_linear(*source, {"a", in, out});
    CHECK(linear.bytes() >= out * in);
    CHECK(resident_kib(file) < out * in / 1024 / 8);
    CHECK(bytes_of(codes) == bytes_of(matrix.codes));  // read again
}

TEST_CASE("formats: integers of older writers do not cross words") {
    QuantizedMatrix matrix = made(grouped(3, 32), DType::f16);
    std::vector<NamedTensor> tensors = pack(matrix, "a", "pack-quantized", DType::f16);
    Tensor words = Tensor::allocate(DType::i32, {kOut, kIn / 10});
    for (int64_t i = 0; i < kOut * kIn; ++i) {
        const auto field = static_cast<uint32_t>(matrix.codes.view().as<int8_t>()[i] + 4);
        words.mutable_view().as<uint32_t>()[i / 10] |= field << (i % 10 * 3);
    }
    tensors[0].tensor = words;
    Stored stored("pack-quantized", matrix.arguments);
    stored.write(tensors);
    CHECK(bytes_of(stored.read().codes) == bytes_of(matrix.codes));
}

// nf4's table, and blocks of 64 that go on from a row of 40 to the next.
TEST_CASE("formats: bitsandbytes' blocks go on from row to row, under scales that are quantized") {
    constexpr int64_t out = 8, in = 40, block = 64, blocks = out * in / block;
    std::vector<NamedTensor> tensors;
    const auto add = [&](const char* name, DType type, int64_t count) {
        tensors.push_back({std::string("a.weight") + name, Tensor::allocate(type, {count})});
        return tensors.back().tensor.mutable_view();
    };
    const TensorView packed = add("", DType::u8, out * in / 2);
    const TensorView table = add(".quant_map", DType::f32, 16);
    const TensorView codes = add(".absmax", DType::u8, blocks);
    const TensorView scales = add(".nested_quant_map", DType::f32, 256);
    const TensorView outer = add(".nested_absmax", DType::f32, (blocks + 1) / 2);
    for (int64_t i = 0; i < out * in / 2; ++i)
        packed.as<uint8_t>()[i] = static_cast<uint8_t>(37 * i);
    for (int64_t i = 0; i < 16; ++i) table.as<float>()[i] = static_cast<float>(i * i) / 225.0f;
    for (int64_t i = 0; i < 256; ++i) scales.as<float>()[i] = static_cast<float>(i) / 256.0f;
    for (int64_t i = 0; i < blocks; ++i) codes.as<uint8_t>()[i] = static_cast<uint8_t>(50 * i + 9);
    for (int64_t i = 0; i < outer.numel(); ++i) outer.as<float>()[i] = static_cast<float>(i + 1);
    const std::string state =
        R"({"quant_type": "nf4", "blocksize": 64, "nested_blocksize": 2, "nested_offset": 0.25})";
    const auto length = static_cast<int64_t>(state.size());
    std::memcpy(add(".quant_state.bitsandbytes__nf4", DType::u8, length).data, state.data(),
                state.size());
    Stored stored("bitsandbytes-4bit", places());
    stored.write(tensors);
    const auto source = stored.open(DType::f32, CheckpointUse::values);
    const Tensor values = read_values(*source, {"a", in, out});
    CHECK(source->unread().empty());
    for (int64_t i = 0; i < out * in; ++i) {
        const int byte = static_cast<uint8_t>(37 * (i / 2));
        const int code = i % 2 == 0 ? byte >> 4 : byte & 15;
        const int64_t of = i / block;
        const double scale =
            static_cast<double>(50 * of + 9) / 256.0 * static_cast<double>(of / 2 + 1) + 0.25;
        CHECK(values.view().as<float>()[i] ==
              doctest::Approx(code * code / 225.0 * scale).epsilon(1e-6));
    }
    // A slice of either side is what the whole has there.
    for (const ShardAxis axis : {ShardAxis::output, ShardAxis::input}) {
        const LinearSpec slice = slice_of({"a", in, out, false, axis}, {1, 2});
        const Tensor part = read_values(*source, slice);
        const int64_t row = axis == ShardAxis::output ? out / 2 : 0;
        const int64_t column = axis == ShardAxis::input ? in / 2 : 0;
        for (int64_t i = 0; i < slice.out * slice.in; ++i) {
            CHECK(part.view().as<float>()[i] ==
                  values.view().as<float>()[(row + i / slice.in) * in + column + i % slice.in]);
        }
    }
    std::memcpy(tensors.back().tensor.mutable_view().data, "[1]", 3);
    std::memset(tensors.back().tensor.mutable_view().as<char>() + 3, ' ', state.size() - 3);
    Stored odd("bitsandbytes-4bit", places());
    odd.write(tensors);
    CHECK_THROWS_WITH_AS(read_values(*odd.open(DType::f32, CheckpointUse::values), {"a", in, out}),
                         doctest::Contains("is no JSON object"), Error);
}

TEST_CASE("formats: scaled zero points of gemv_fast that are no whole numbers are refused") {
    const QuantizationArguments arguments = grouped(4, 32, false);
    std::vector<NamedTensor> tensors =
        pack(made(arguments, DType::f16), "a", "awq-gemv-fast", DType::f16);
    tensors.back().tensor.mutable_view().as<Float16>()[3] = Float16(1.0f);
    Stored stored("awq-gemv-fast", arguments);
    stored.write(tensors);
    CHECK(stored.refusal().find("a whole number of them") != std::string::npos);
}

TEST_CASE("formats: a dense linear among quantized ones stays dense") {
    Stored stored("pack-quantized", grouped(4, 32));
    stored.write({{"a.weight", random_weight(kOut, kIn)}});
    const auto source = stored.open(DType::f32, CheckpointUse::values);
    CHECK(load_linear(*source, {"a", kIn, kOut}).bytes() == kIn * kOut * 4);
    CHECK(source->quantized_linears().native == 0);
}

TEST_CASE("formats: activations are rounded as the scheme says") {
    QuantizationScheme scheme = find_preset_scheme("W8A8").scheme;
    scheme.format = "int-quantized";
    Stored stored("int-quantized", *scheme.weights);
    stored.scheme = scheme;
    const QuantizedMatrix matrix = made(*scheme.weights, DType::f16);
    stored.write(pack(matrix, "a", "int-quantized", DType::f16));
    const auto source = stored.open(DType::f32, CheckpointUse::values);
    const std::vector<float> y = apply(load_linear(*source, {"a", kIn, kOut}), 3, stored.threads);
    const std::vector<double> exact = expected_product(dequantized(matrix), 3);
    double error = 0, size = 0;
    for (size_t i = 0; i < y.size(); ++i) {
        error += std::pow(y[i] - exact[i], 2);
        size += std::pow(exact[i], 2);
    }
    CHECK(std::sqrt(error / size) < 0.02);
    CHECK(std::sqrt(error / size) > 1e-5);
}

// The two larger of four neighbours.
Tensor half_of_it(const Tensor& weight, DType type) {
    Tensor halved = Tensor::allocate(DType::f32, {kOut, kIn});
    const auto* from = weight.view().as<float>();
    for (int64_t i = 0; i < kOut * kIn; i += 4) {
        std::array<int64_t, 4> order = {i, i + 1, i + 2, i + 3};
        std::sort(order.begin(), order.end(),
                  [&](int64_t a, int64_t b) { return std::fabs(from[a]) > std::fabs(from[b]); });
        for (size_t k = 0; k < 2; ++k) {
            halved.mutable_view().as<float>()[order[k]] = from[order[k]];
        }
    }
    return in_type(halved, type, {kOut, kIn});
}

// Linear "a", from headers and from values.
void check_sparse_linear(Stored& stored, const Tensor& dense, DType compute_type, size_t bytes,
                         const char* scheme) {
    const auto headers = stored.open(compute_type, CheckpointUse::headers);
    const auto source = stored.open(compute_type, CheckpointUse::values);
    for (CheckpointSource* const of : {headers.get(), source.get()}) {
        const LinearWeight linear = load_linear(*of, {"a", kIn, kOut});
        CHECK(linear.bytes() == bytes);
        CHECK(of->unread().empty());
        REQUIRE(of->quantized_linears().by_scheme.contains(scheme));
        CHECK(of->quantized_linears().by_scheme.at(scheme).native == 1);
        if (of == headers.get()) continue;
        const std::vector<float> y = apply(linear, 3, stored.threads);
        const std::vector<double> expected = expected_product(dense, 3);
        for (size_t i = 0; i < y.size(); ++i) {
            // x is rounded to the product type.
            const double epsilon = compute_type == DType::f32 ? 1e-5 : 1e-2;
            CHECK(y[i] == doctest::Approx(expected[i]).epsilon(epsilon).scale(1));
        }
    }
}

TEST_CASE("formats: two of four, under a bit mask, dense and with float8 codes") {
    const Tensor sparse = half_of_it(random_weight(kOut, kIn), DType::bf16);
    Stored stored("float-quantized", channel(NumberKind::floating));
    const std::vector<NamedTensor> tensors = pack_sparse(sparse, "a");
    CHECK(tensors[0].tensor.bytes() + tensors[1].tensor.bytes() == sparse.bytes() * 9 / 16);
    stored.write(tensors);
    const auto source = stored.open(DType::bf16, CheckpointUse::values);
    const SparseMatrix kept = read_sparse(*source, {"a", kIn, kOut}, {DType::bf16});
    CHECK(bytes_of(with_zeros(*source, kept)) == bytes_of(sparse));

    ThreadPool threads(2);
    const QuantizedMatrix matrix =
        round_to_nearest(half_of_it(random_weight(kOut, kIn), DType::f32).view(),
                         channel(NumberKind::floating), DType::f16, threads);
    std::vector<NamedTensor> codes = pack(matrix, "a", "float-quantized", DType::f16);
    const std::vector<NamedTensor> masked = pack_sparse(codes[0].tensor, "a");
    codes.erase(codes.begin());
    codes.insert(codes.end(), masked.begin(), masked.end());
    stored.write(codes);
    CHECK(bytes_of(stored.read().codes) == bytes_of(matrix.codes));
    check_sparse_linear(stored, dequantized(matrix), DType::f32, kOut * kIn * 5 / 8 + kOut * 2,
                        "float-quantized, 8 bits, 2:4");

    // As many as there are values, but not two of each four.
    Tensor& mask = codes[2].tensor;
    auto* const bits = mask.mutable_view().as<uint8_t>() + 3 * (kIn / 8);
    bits[1] = 0x17;
    stored.write(codes);
    CHECK(stored.refusal().find("a.bitmask does not keep two of columns 8 to 11 of row 3") !=
          std::string::npos);
    mask = Tensor::allocate(DType::u8, {kOut, kIn / 8});
    stored.write(codes);
    CHECK(stored.refusal().find("a.bitmask does not keep two of columns 0 to 3 of row 0") !=
          std::string::npos);
    CHECK_THROWS_AS(pack_sparse(random_weight(kOut, kIn), "a"), Error);
}

TEST_CASE("formats: two of four are multiplied as they are kept, in types of 16 bits") {
    for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
        CAPTURE(dtype_name(type));
        const Tensor sparse = half_of_it(random_weight(kOut, kIn), type);
        Stored stored("float-quantized", channel(NumberKind::floating));
        stored.write(pack_sparse(sparse, "a"));
        const Tensor dense = as_float32(*stored.open(DType::f32, CheckpointUse::values), sparse);
        if (type == DType::f32) {
            const auto source = stored.open(DType::f32, CheckpointUse::values);
            CHECK(load_linear(*source, {"a", kIn, kOut}).bytes() == sparse.bytes());
            CHECK(source->quantized_linears().widened == 1);
            continue;
        }
        for (const DType product : {DType::f32, type}) {
            check_sparse_linear(stored, dense, product, sparse.bytes() * 9 / 16 + kOut * 2, "2:4");
        }
    }
}

// A format's tensors with one changed before they are written.
std::string refusal_with(const FormatCase& row, size_t index,
                         const std::function<Tensor(const Tensor&)>& change) {
    Stored stored(row.format, row.arguments);
    std::vector<NamedTensor> tensors =
        pack(made(row.arguments, DType::f16), "a", row.format, DType::f16);
    tensors[index].tensor = change(tensors[index].tensor);
    stored.write(tensors);
    return stored.refusal();
}

template <typename T>
Tensor with_first(const Tensor& tensor, T value) {
    Tensor copy = Tensor::allocate(tensor.view(), ComputeDevice());
    std::memcpy(copy.mutable_view().data, tensor.view().data, tensor.bytes());
    copy.mutable_view().as<T>()[0] = value;
    return copy;
}

TEST_CASE("formats: what a file must not hold is refused by name") {
    const FormatCase packed{"pack-quantized", grouped(4, 32)};
    CHECK(refusal_with(packed, 0, [](const Tensor& t) { return t; }) == "");
    CHECK(refusal_with(packed, 0, [](const Tensor&) {
              return random_weight(3, 3);
          }).find("a.weight_packed is float32[3, 3], expected int32[64, 40]") != std::string::npos);
    CHECK(refusal_with(packed, 1, [](const Tensor& t) {
              return with_first(t, Float16(INFINITY));
          }).find("a.weight_scale holds inf") != std::string::npos);
    CHECK(refusal_with(packed, 2, [](const Tensor& t) {
              return with_first<int64_t>(t, 7);
          }).find("a.weight_shape is 7 x 320; the config says 64 x 320") != std::string::npos);
    const FormatCase floats{"float-quantized", channel(NumberKind::floating)};
    CHECK(refusal_with(floats, 0, [](const Tensor& t) {
              return with_first<uint8_t>(t, 0xff);
          }).find("a.weight holds a NaN") != std::string::npos);
    const FormatCase narrow{"int-quantized", grouped(4, 32)};
    CHECK(refusal_with(narrow, 0, [](const Tensor& t) {
              return with_first<int8_t>(t, 8);
          }).find("a.weight holds integers of more bits") != std::string::npos);
    QuantizationArguments uneven = grouped(4, 32);
    uneven.symmetric = false;
    CHECK(refusal_with({"int-quantized", uneven}, 2, [](const Tensor& t) {
              return with_first<int8_t>(t, 8);
          }).find("a.weight_zero_point holds integers of more bits") != std::string::npos);
    const FormatCase gptq{"gptq", grouped(4, 32)};
    CHECK(refusal_with(gptq, 3, [](const Tensor& t) {
              return with_first<int32_t>(t, 10);
          }).find("a.g_idx puts column 0 into group 10 of 10") != std::string::npos);
    const FormatCase nv{"nvfp4-pack-quantized", arguments_of("NVFP4A16")};
    CHECK(refusal_with(nv, 2, [](const Tensor& t) {
              return with_first(t, -1.0f);
          }).find("positive number") != std::string::npos);
    CHECK_THROWS_AS(pack(made(grouped(8, 32), DType::f32), "a", "awq", DType::f16), Error);
    CHECK_THROWS_AS(pack(made(grouped(5, 32), DType::f32), "a", "gptq", DType::f16), Error);
    CHECK_THROWS_AS(pack(made(grouped(4, 32), DType::f32), "a", "squeezed", DType::f16), Error);
}

}  // namespace
}  // namespace nvllm
