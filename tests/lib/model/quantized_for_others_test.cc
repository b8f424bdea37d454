// Checkpoints of our own packer for compressed-tensors and transformers to read:
// scripts/fixtures/check_quantized.py writes and compares them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/loader.h"
#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/weight_source.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/driver.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

constexpr float kInputScale = 0x1p-7f;
constexpr float kInputGlobalScale = 512.0f;

// With groups that divide the sizes of the fixture.
QuantizationScheme small_scheme(const PresetScheme& preset) {
    QuantizationScheme scheme = preset.scheme;
    if (scheme.weights->group_size == 128) scheme.weights->group_size = 32;
    if (scheme.weights->block) scheme.weights->block = QuantizationBlock{16, 32};
    if (scheme.input_activations && scheme.input_activations->group_size == 128) {
        scheme.input_activations->group_size = 32;
    }
    scheme.format = inferred_format(scheme);
    return scheme;
}

Tensor as_floats(const ConstTensorView& view) {
    Tensor floats = Tensor::allocate(DType::f32, {view.dim(0), view.dim(1)});
    for (int64_t i = 0; i < view.numel(); ++i) {
        floats.mutable_view().as<float>()[i] = static_cast<float>(view.as<BFloat16>()[i]);
    }
    return floats;
}

QuantizedMatrix quantize(const ConstTensorView& weight, const QuantizationScheme& scheme,
                         ThreadPool& threads) {
    QuantizedMatrix matrix =
        round_to_nearest(as_floats(weight).view(), *scheme.weights, DType::bf16, threads);
    if (!scheme.input_activations) return matrix;
    const QuantizationArguments& inputs = *scheme.input_activations;
    if (inputs.dynamic == DynamicScales::no) matrix.input_scale = kInputScale;
    if (inputs.dynamic == DynamicScales::local) matrix.input_global_scale = kInputGlobalScale;
    return matrix;
}

bool is_quantized(const std::string& name) {
    return name.find("_proj.weight") != std::string::npos;
}

// The fixture's llama with every linear but the head rounded to nearest.
void write_checkpoint(const std::filesystem::path& folder, const QuantizationScheme& scheme) {
    const auto llama = test::source_path("tests/fixtures/families/llama");
    const SafetensorsFile original(llama / "model.safetensors");
    ThreadPool threads(2);
    std::vector<NamedTensor> kept;
    std::vector<TensorToWrite> tensors;
    for (const SafetensorsEntry& entry : original.entries()) {
        if (!is_quantized(entry.name)) {
            tensors.push_back({entry.name, original.view(entry)});
            continue;
        }
        const std::string linear = entry.name.substr(0, entry.name.rfind('.'));
        for (NamedTensor& tensor : pack(quantize(original.view(entry), scheme, threads), linear,
                                        scheme.format, DType::bf16)) {
            kept.push_back(std::move(tensor));
        }
    }
    for (const NamedTensor& tensor : kept) tensors.push_back({tensor.name, tensor.tensor.view()});
    write_safetensors(folder / "model.safetensors", tensors);

    QuantizationConfig::Fields fields;
    fields.groups.push_back({{"Linear"}, scheme});
    fields.ignore = {"lm_head"};
    auto config = nlohmann::ordered_json::parse(read_file(llama / "config.json"));
    config["quantization_config"] = quantization_config_json(QuantizationConfig(std::move(fields)));
    write_file(folder / "config.json", write_json(config));
}

void write_logits(const std::filesystem::path& folder) {
    ThreadPool threads(2);
    ModelLoadOptions options;
    options.directory = folder;
    options.dtype = DType::f32;
    options.threads = &threads;
    const auto model = load_model(options);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 20; ++i) ids.push_back((i * 29 + 11) % 128);
    test::Driver driver(*model, threads, DType::f32, 16);
    const std::vector<float> logits = driver.logits_of(ids, 0);
    const std::vector<TensorToWrite> reference = {
        {"prompt_ids", ConstTensorView(ids.data(), DType::i32, {20})},
        {"logits", ConstTensorView(logits.data(), DType::f32, {20, 128})}};
    write_safetensors(folder / "reference.safetensors", reference);
}

// Below $NVLLM_QUANTIZED_OUTPUT where that is set, else where nobody looks.
TEST_CASE("quantized for others: every preset is packed, described, loaded again and runs") {
    const test::TemporaryFolder temporary;
    const char* asked = std::getenv("NVLLM_QUANTIZED_OUTPUT");
    const std::filesystem::path root = asked != nullptr ? asked : temporary.path().c_str();
    for (const PresetScheme& preset : preset_schemes()) {
        CAPTURE(preset.name);
        const std::filesystem::path folder = root / preset.name;
        std::filesystem::create_directories(folder);
        write_checkpoint(folder, small_scheme(preset));
        write_logits(folder);
        CHECK(std::filesystem::exists(folder / "reference.safetensors"));
    }
}

}  // namespace
}  // namespace nvllm
