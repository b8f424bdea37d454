// Tiny checkpoints in every quantized format against logits of transformers:
// scripts/fixtures/make_quantized.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "lib/checkpoint/safetensors.h"
#include "lib/model/loader.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/model/weights/scheme.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

const std::filesystem::path kRoot = test::source_path("tests/fixtures/quantized");

std::vector<std::filesystem::path> checkpoints() {
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(kRoot)) {
        folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
}

// Where x becomes integers its largest magnitude lands on 127.5, between two codes: the last bit of
// another order of sums decides for one of them.
double tolerance_of(const std::string& name) {
    return name == "w8a8" || name == "w4a8" ? 0.02 : 1e-4;
}

// The root mean square of the differences over that of the logits.
double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
    double error = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
        size += std::pow(static_cast<double>(expected[i]), 2);
    }
    return std::sqrt(error / size);
}

ModelLoadOptions options_for(const std::filesystem::path& folder, DType dtype,
                             ThreadPool& threads) {
    ModelLoadOptions options;
    options.directory = folder;
    options.dtype = dtype;
    options.threads = &threads;
    return options;
}

TEST_CASE("quantized models: logits in float32 are those of transformers") {
    const auto folders = checkpoints();
    REQUIRE(folders.size() >= 28);
    for (const std::filesystem::path& folder : folders) {
        const std::string name = folder.filename().string();
        CAPTURE(name);
        ThreadPool threads(2);
        const auto model = load_model(options_for(folder, DType::f32, threads));
        const SafetensorsFile reference(folder / "reference.safetensors");
        const auto ids = test::values_of<int32_t>(reference, "prompt_ids");
        const auto expected = test::values_of<float>(reference, "logits");
        test::Driver driver(*model, threads, DType::f32, 16);
        const std::vector<float> logits = driver.logits_of(ids, 0);
        REQUIRE(logits.size() == expected.size());
        const double error = relative_error(logits, expected);
        MESSAGE(name << ": relative error of the logits " << error);
        CHECK(error < tolerance_of(name));
        // The same in any cut, to the last bit.
        test::Driver other(*model, threads, DType::f32, 16);
        CHECK(other.logits_of(ids, 3) == logits);
    }
}

TEST_CASE("quantized models: the plan knows their bytes, and how they run") {
    for (const std::filesystem::path& folder : checkpoints()) {
        CAPTURE(folder.filename().string());
        ThreadPool threads(2);
        const ModelLoadOptions options = options_for(folder, DType::bf16, threads);
        const ModelMetadata metadata = model_metadata(options);
        CHECK(metadata.weight_bytes == load_model(options)->weight_bytes());
        // No op multiplies places in a table.
        const bool is_widened = folder.filename() == "bnb_fp4" || folder.filename() == "bnb_nf4";
        CHECK(metadata.quantized_linears.native == (is_widened ? 0 : 14));
        CHECK(metadata.quantized_linears.widened == (is_widened ? 14 : 0));
        CHECK(metadata.quantization != nullptr);
    }
}

// The tensors of one linear as our own packer makes them.
std::vector<NamedTensor> packed_again(CheckpointSource& source, const LinearSpec& name,
                                      const QuantizationScheme& scheme, DType scale_type) {
    const QuantizedReader reader(source, name, scheme);
    for (const WeightScheme& row : weight_schemes()) {
        if (scheme.format == row.name) return row.pack(row.read(reader), name.name, scale_type);
    }
    return {};
}

TEST_CASE("quantized models: what we pack is, byte for byte, what compressed-tensors wrote") {
    const std::vector<LinearSpec> linears = {{"model.layers.0.self_attn.q_proj", 64, 64},
                                             {"model.layers.0.self_attn.k_proj", 64, 32},
                                             {"model.layers.1.mlp.up_proj", 64, 128},
                                             {"model.layers.1.mlp.down_proj", 128, 64}};
    size_t compared = 0;
    for (const std::filesystem::path& folder : checkpoints()) {
        CAPTURE(folder.filename().string());
        const QuantizationConfig config = *read_quantization_config(folder);
        // Scales of scales, and products with 127, are written in no other way than rounded.
        if (config.method() == "bitsandbytes") continue;
        const bool is_auto_round = config.method() == "auto-round";
        const bool stores_halves =
            config.method() == "awq" || config.method() == "gptq" || is_auto_round;
        ThreadPool threads(2);
        CheckpointSource source(Checkpoint::open(folder), DType::f32, threads);
        for (const LinearSpec& linear : linears) {
            const QuantizationScheme* scheme = config.scheme_for(linear.name);
            REQUIRE(scheme != nullptr);
            for (const NamedTensor& tensor :
                 packed_again(source, linear, *scheme, stores_halves ? DType::f16 : DType::bf16)) {
                CAPTURE(tensor.name);
                if (is_auto_round && tensor.name.ends_with(".g_idx")) continue;  // it has none
                const auto stored = source.checkpoint().find(tensor.name);
                REQUIRE(stored.has_value());
                CHECK(tensor.tensor.view().describe() == stored->describe());
                CHECK(std::memcmp(tensor.tensor.view().data, stored->data, tensor.tensor.bytes()) ==
                      0);
                ++compared;
            }
        }
    }
    CHECK(compared >= 200);
}

TEST_CASE("quantized models: a real GPTQ linear gives its product") {
    const auto folder = test::shared_data("quantized/gptq-small");
    if (folder.empty()) return;
    test::TemporaryFolder copy;
    const SafetensorsFile stored(folder / "gptq_small.safetensors");
    std::vector<TensorToWrite> tensors;
    for (const SafetensorsEntry& entry : stored.entries()) {
        tensors.push_back({"a." + entry.name, stored.view(entry)});
    }
    write_safetensors(copy.path() / "model.safetensors", tensors);
    ThreadPool threads(2);
    CheckpointSource source(Checkpoint::open(copy.path()), DType::f32, threads);
    QuantizationConfig::Fields fields;
    QuantizationScheme scheme = find_preset_scheme("W4A16").scheme;
    scheme.format = "gptq";
    fields.groups.push_back({{"Linear"}, scheme});
    source.set_quantization(std::make_shared<const QuantizationConfig>(std::move(fields)));
    const LinearWeight linear = load_linear(source, {"a", 256, 256});
    CHECK(source.quantized_linears().native == 1);
    CHECK(source.unread().empty());

    const SafetensorsFile expected(folder / "expected.safetensors");
    const auto x = test::values_of<float>(expected, "x");
    const auto y = test::values_of<float>(expected, "y");
    const auto tokens = static_cast<int64_t>(x.size() / 256);
    std::vector<float> product(y.size());
    ScratchArena scratch;
    Context context;
    context.scratch = &scratch;
    context.threads = &threads;
    linear.apply(context, ConstTensorView(x.data(), DType::f32, {tokens, 256}),
                 ops::MatmulOutput::overwrite,
                 TensorView(product.data(), DType::f32, {tokens, 256}));
    float largest = 0.0f;
    for (size_t i = 0; i < y.size(); ++i) {
        largest = std::max(largest, std::fabs(product[i] - y[i]));
    }
    MESSAGE("largest difference " << largest);
    CHECK(largest < 1e-3f);
}

}  // namespace
}  // namespace nvllm
