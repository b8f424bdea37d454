// A tiny checkpoint with two zeros in each four weights, stored with them and without: the same
// model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/loader.h"
#include "lib/model/registry.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/model/weights/sparse_bitmask.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

const std::filesystem::path kSource = test::source_path("tests/fixtures/families/llama");

bool is_linear(const SafetensorsEntry& entry) { return entry.name.ends_with("_proj.weight"); }

// The larger half of each four values of a bfloat16 matrix, in another type.
Tensor pruned(const ConstTensorView& matrix, DType type) {
    const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
    Tensor values = Tensor::allocate(DType::f32, {rows, columns});
    auto* to = values.mutable_view().as<float>();
    const auto* const from = matrix.as<BFloat16>();
    std::transform(from, from + rows * columns, to,
                   [](BFloat16 value) { return static_cast<float>(value); });
    for (int64_t four = 0; four < rows * columns; four += 4) {
        for (int removed = 0; removed < 2; ++removed) {
            float* least = nullptr;
            for (float* value = to + four; value < to + four + 4; ++value) {
                if (*value == 0.0f) continue;
                if (least == nullptr || std::fabs(*value) < std::fabs(*least)) least = value;
            }
            if (least != nullptr) *least = 0.0f;
        }
    }
    return in_type(values, type, {rows, columns});
}

// The checkpoint in two folders; how many linears it has.
struct TwoForms {
    test::TemporaryFolder whole, compressed;
    int64_t linears = 0;

    explicit TwoForms(DType type) {
        const SafetensorsFile source(kSource / "model.safetensors");
        std::vector<NamedTensor> with_zeros, without;
        for (const SafetensorsEntry& entry : source.entries()) {
            if (!is_linear(entry)) {
                const Tensor same = Tensor::borrow(source.view(entry), nullptr);
                with_zeros.push_back({entry.name, same});
                without.push_back({entry.name, same});
                continue;
            }
            const Tensor matrix = pruned(source.view(entry), type);
            const std::string linear = entry.name.substr(0, entry.name.rfind('.'));
            with_zeros.push_back({entry.name, matrix});
            for (const NamedTensor& part : pack_sparse(matrix, linear)) without.push_back(part);
            ++linears;
        }
        nlohmann::json config = parse_json(read_file(kSource / "config.json", 1 << 20), "config");
        write(whole.path(), with_zeros, config);
        config["quantization_config"] = {
            {"quant_method", "compressed-tensors"},
            {"format", "dense"},
            {"sparsity_config",
             {{"format", "sparse-24-bitmask"}, {"targets", {"Linear"}}, {"ignore", {"lm_head"}}}}};
        write(compressed.path(), without, config);
    }

    static void write(const std::filesystem::path& folder, const std::vector<NamedTensor>& tensors,
                      const nlohmann::json& config) {
        std::vector<TensorToWrite> list;
        for (const NamedTensor& row : tensors) list.push_back({row.name, row.tensor.view()});
        write_safetensors(folder / "model.safetensors", list);
        write_file(folder / "config.json", write_json(config));
    }
};

struct Run {
    size_t weight_bytes;
    std::vector<float> logits;
};

ModelLoadOptions options_for(const std::filesystem::path& folder, DType dtype,
                             ThreadPool& threads) {
    ModelLoadOptions options;
    options.directory = folder;
    options.dtype = dtype;
    options.threads = &threads;
    return options;
}

Run run(const std::filesystem::path& folder, DType dtype) {
    ThreadPool threads(2);
    const auto model = load_model(options_for(folder, dtype, threads));
    const SafetensorsFile reference(kSource / "reference.safetensors");
    const auto ids = test::values_of<int32_t>(reference, "prompt_ids");
    test::Driver driver(*model, threads, dtype, 16), other(*model, threads, dtype, 16);
    Run result{model->weight_bytes(), driver.logits_of(ids, 0)};
    // The same in any cut, to the last bit.
    CHECK(other.logits_of(ids, 3) == result.logits);
    return result;
}

std::vector<size_t> likeliest(const std::vector<float>& logits, size_t vocabulary) {
    std::vector<size_t> best;
    for (size_t row = 0; row < logits.size(); row += vocabulary) {
        const auto begin = logits.begin() + static_cast<int64_t>(row);
        const auto end = begin + static_cast<int64_t>(vocabulary);
        best.push_back(static_cast<size_t>(std::max_element(begin, end) - begin));
    }
    return best;
}

TEST_CASE("sparse models: zeros that are left out change no answer and save bytes") {
    const auto vocabulary = static_cast<size_t>(read_model_config(kSource).vocab_size);
    for (const DType type : {DType::bf16, DType::f16}) {
        const TwoForms forms(type);
        REQUIRE(forms.linears == 14);
        for (const DType product : {DType::f32, type}) {
            CAPTURE(dtype_name(type));
            CAPTURE(dtype_name(product));
            const Run whole = run(forms.whole.path(), product);
            const Run compressed = run(forms.compressed.path(), product);
            REQUIRE(whole.logits.size() == compressed.logits.size());
            double error = 0, size = 0;
            for (size_t i = 0; i < whole.logits.size(); ++i) {
                error += std::pow(whole.logits[i] - compressed.logits[i], 2);
                size += std::pow(whole.logits[i], 2);
            }
            // Another order of sums; where x is rounded, the last bit may decide for another value.
            CHECK(std::sqrt(error / size) < (product == DType::f32 ? 1e-5 : 5e-3));
            if (product == DType::f32) {
                CHECK(likeliest(whole.logits, vocabulary) ==
                      likeliest(compressed.logits, vocabulary));
            }
            CHECK(compressed.weight_bytes < whole.weight_bytes);
        }
    }
}

TEST_CASE("sparse models: the plan knows their bytes, with weights and without") {
    const TwoForms forms(DType::bf16);
    for (const DType product : {DType::f32, DType::bf16, DType::f16}) {
        CAPTURE(dtype_name(product));
        ThreadPool threads(2);
        ModelLoadOptions options = options_for(forms.compressed.path(), product, threads);
        const ModelMetadata metadata = model_metadata(options);
        CHECK(metadata.weight_bytes == load_model(options)->weight_bytes());
        CHECK(metadata.quantized_linears.native == forms.linears);
        CHECK(metadata.quantized_linears.by_scheme.at("2:4").native == forms.linears);
        options.load_format = LoadFormat::dummy;
        const ModelMetadata made_up = model_metadata(options);
        CHECK(made_up.weight_bytes == load_model(options)->weight_bytes());
        // In float32 nothing multiplies them as they are.
        CHECK(made_up.quantized_linears.native == (product == DType::f32 ? 0 : forms.linears));
    }
    const auto config = *read_quantization_config(forms.compressed.path());
    CHECK(meta_quantized(forms.compressed.path(), config).by_scheme.contains("2:4"));
    CHECK(config.keeps_two_of_four("model.layers.0.mlp.up_proj"));
    CHECK_FALSE(config.keeps_two_of_four("lm_head"));
}

}  // namespace
}  // namespace nvllm
