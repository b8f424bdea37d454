// Results in the formats of others: the same model in each, and GPT-2, whose matrices lie turned.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "kernels/small_floats.h"
#include "lib/base/file.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/quantize/pipeline.h"
#include "tests/error_of.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/quantize/demo_runs.h"
#include "tests/lib/quantize/folder.h"
#include "tests/lib/quantize/little_evaluation.h"
#include "tests/sanitized.h"

namespace nvllm::quantize {
namespace {

std::filesystem::path source_path(const char* path) {
    return std::filesystem::path(NVLLM_SOURCE_DIR) / path;
}

// The demo in float16, the type of scales in AWQ's and GPTQ's files: every format has the same.
void write_demo_in_halves(const std::filesystem::path& folder) {
    std::filesystem::copy(source_path("models/demo"), folder,
                          std::filesystem::copy_options::recursive);
    nlohmann::json config = nlohmann::json::parse(read_file(folder / "config.json"));
    config["torch_dtype"] = "float16";
    write_file(folder / "config.json", config.dump());
    std::vector<Tensor> held;
    std::vector<TensorToWrite> tensors;
    const Checkpoint source = Checkpoint::open(source_path("models/demo"));
    for (const std::string_view name : source.names()) {
        const ConstTensorView view = *source.find(name);
        Tensor halves = Tensor::allocate(DType::f16, {view.numel()});
        for (int64_t i = 0; i < view.numel(); ++i) {
            halves.mutable_view().as<Float16>()[i] =
                Float16(static_cast<float>(view.as<BFloat16>()[i]));
        }
        ViewLayout layout = view;
        layout.dtype = DType::f16;
        tensors.push_back({std::string(name), ConstTensorView(halves.view().data, layout)});
        held.push_back(std::move(halves));
    }
    write_safetensors(folder / "model.safetensors", tensors);
}

struct Logits {
    std::vector<float> values;
    std::vector<int32_t> greedy;
};

Logits logits_of(const std::filesystem::path& directory) {
    ThreadPool threads(2);
    ModelLoadOptions options;
    options.directory = directory;
    options.dtype = DType::f32;
    options.threads = &threads;
    const std::unique_ptr<Model> model = load_model(options);
    test::Driver driver(*model, threads, DType::f32, 16);
    const std::vector<int32_t> prompt{5, 90, 31, 17, 44, 60, 2, 77};
    return {driver.logits_of(prompt, 0), driver.greedy(prompt, 24)};
}

float furthest(const Logits& a, const Logits& b) {
    float furthest = 0.0f;
    for (size_t i = 0; i < a.values.size(); ++i) {
        furthest = std::max(furthest, std::abs(a.values[i] - b.values[i]));
    }
    return furthest;
}

float largest(const Logits& logits) {
    float largest = 0.0f;
    for (const float value : logits.values) largest = std::max(largest, std::abs(value));
    return largest;
}

struct Made {
    std::filesystem::path model;
    const char* scheme = "W4A16";
    const char* method = "gptq";
    const char* group_size = "64";
    const char* actorder = "static";
};

std::filesystem::path made(const test::Folder& folder, const Made& what, const char* format) {
    PipelineOptions options;
    options.model = what.model;
    options.output = folder.path() / fmt::format("{}-{}-{}-{}-{}", what.scheme, what.method,
                                                 what.group_size, what.actorder, format);
    options.calibration.num_samples = 2;
    options.calibration.max_seq_length = 600;
    options.num_threads = 2;
    RecipeFlags flags;
    flags.scheme = what.scheme;
    flags.methods = {what.method};
    flags.group_size = what.group_size;
    flags.actorder = what.actorder;
    Recipe recipe = recipe_from_flags(flags);
    set_format(recipe, format);
    Pipeline pipeline(options, recipe);
    pipeline.run({});
    pipeline.publish();
    return options.output;
}

TEST_CASE("GPTQ's and AWQ's files are the model that compressed-tensors' are") {
    const test::Folder folder;
    const std::filesystem::path demo = folder.path() / "demo";
    write_demo_in_halves(demo);
    struct Twins {
        Made made;
        std::vector<const char*> formats;
    };
    const std::vector<Twins> cases = {
        {{demo}, {"gptq", "gptq_v2", "awq"}},
        {{demo, "W4A16", "gptq", "64", "group"}, {"gptq", "gptq_v2"}},
        {{demo, "W4A16_ASYM", "rtn"}, {"gptq_v2", "awq"}},
        {{demo, "W4A16", "rtn", "channel"}, {"gptq", "awq"}},
        {{demo, "W3A16", "rtn"}, {"gptq"}},
        {{demo, "W8A16", "rtn"}, {"gptq", "gptq_v2"}},
    };
    // Each reader once, and an order of its own, where everything is slow.
    const std::span<const Twins> tried =
        test::kSanitized ? std::span(cases).subspan(1, 2) : std::span(cases);
    for (const Twins& twins : tried) {
        const Logits expected = logits_of(made(folder, twins.made, "compressed-tensors"));
        for (const char* const format : twins.formats) {
            CAPTURE(twins.made.scheme);
            CAPTURE(twins.made.actorder);
            CAPTURE(format);
            const std::filesystem::path written = made(folder, twins.made, format);
            const Logits found = logits_of(written);
            CHECK(found.greedy == expected.greedy);
            // AWQ has zero points always, whose products are added up in another order.
            const float allowed = format == std::string("awq") ? 1e-3f : 0.0f;
            CHECK(furthest(found, expected) <= allowed);
            const Checkpoint tensors = Checkpoint::open(written);
            const std::string linear = "model.layers.0.mlp.down_proj.";
            CHECK(tensors.find(linear + "scales")->dtype == DType::f16);
            CHECK(tensors.find(linear + "g_idx").has_value() == (format != std::string("awq")));
        }
    }
}

// Element i of a string of fields of 8 bits down a column of words.
int stored_byte(const ConstTensorView& words, int64_t i, int64_t column) {
    const auto word = static_cast<uint32_t>(words.as<int32_t>()[i / 4 * words.dim(1) + column]);
    return static_cast<int>((word >> (8 * (i % 4))) & 255);
}

TEST_CASE("GPT-2 in GPTQ's files: packed by out and in, as readers make linears of its Conv1D") {
    const test::Folder folder;
    const std::filesystem::path gpt2 = source_path("tests/fixtures/families/gpt2");
    const std::filesystem::path written = made(folder, {gpt2, "W8A16", "rtn", "32"}, "gptq");
    const Checkpoint before = Checkpoint::open(gpt2);
    const Checkpoint after = Checkpoint::open(written);
    const std::string name = "transformer.h.0.attn.c_attn";
    const ConstTensorView dense = *before.find(name + ".weight");  // [in, out]
    const ConstTensorView packed = *after.find(name + ".qweight");
    const ConstTensorView scales = *after.find(name + ".scales");
    REQUIRE(dense.dim(0) == 64);
    REQUIRE(packed.dim(0) == 64 * 8 / 32);
    REQUIRE(packed.dim(1) == dense.dim(1));
    REQUIRE(scales.dim(0) == 64 / 32);
    CHECK_FALSE(after.find(name + ".weight").has_value());
    CHECK(after.find(name + ".bias").has_value());
    for (int64_t i = 0; i < dense.dim(0); ++i) {
        for (int64_t column = 0; column < dense.dim(1); ++column) {
            const int64_t at = i * dense.dim(1) + column;
            const auto weight = static_cast<float>(dense.as<BFloat16>()[at]);
            const auto scale =
                static_cast<float>(scales.as<Float16>()[i / 32 * dense.dim(1) + column]);
            const float kept = static_cast<float>(stored_byte(packed, i, column) - 128) * scale;
            // Half a step, and what scales and quotients lose as halves.
            REQUIRE(std::abs(kept - weight) <= 0.57f * scale);
        }
    }
    const Logits expected = logits_of(gpt2);
    const Logits found = logits_of(written);
    CHECK(furthest(found, expected) < 0.02f * largest(expected));
    CHECK(furthest(found, expected) > 0.0f);
    for (const char* const format : {"compressed-tensors", "awq"}) {
        CHECK(test::error_of(ErrorKind::bad_data, [&] {
                  made(folder, {gpt2, "W4A16", "rtn", "32"}, format);
              }).find("c_attn: transformers keeps it as a Conv1D") != std::string::npos);
    }
}

TEST_CASE("GPT-2 pruned: zeros along the inputs, in the order that it has its matrices in") {
    const test::Folder folder;
    PipelineOptions options;
    options.model = source_path("tests/fixtures/families/gpt2");
    options.output = folder.path() / "out";
    options.num_threads = 2;
    RecipeFlags flags;
    flags.scheme = "none";
    flags.methods = {"magnitude"};
    flags.mask_structure = "2:4";
    Pipeline pipeline(options, recipe_from_flags(flags));
    pipeline.run({});
    pipeline.publish();
    const Checkpoint before = Checkpoint::open(options.model);
    const Checkpoint after = Checkpoint::open(options.output);
    const std::string name = "transformer.h.1.mlp.c_fc.weight";
    const ConstTensorView dense = *before.find(name);
    const ConstTensorView pruned = *after.find(name);
    REQUIRE(pruned.describe() == dense.describe());
    for (int64_t column = 0; column < dense.dim(1); ++column) {
        for (int64_t first = 0; first < dense.dim(0); first += 4) {
            int zeros = 0;
            for (int64_t i = first; i < first + 4; ++i) {
                const int64_t at = i * dense.dim(1) + column;
                const auto value = static_cast<float>(pruned.as<BFloat16>()[at]);
                zeros += value == 0.0f ? 1 : 0;
                CHECK((value == 0.0f || value == static_cast<float>(dense.as<BFloat16>()[at])));
            }
            REQUIRE(zeros == 2);
        }
    }
    CHECK(logits_of(options.output).values.size() == logits_of(options.model).values.size());
}

TEST_CASE("two of four: without their zeros matrices are what they are with them") {
    const test::Folder folder;
    for (const char* const scheme : {"none", "FP8_DYNAMIC"}) {
        CAPTURE(scheme);
        const auto pruned = [&](bool compresses) {
            PipelineOptions options;
            options.model = source_path("models/demo");
            options.output = folder.path() / fmt::format("{}-{}", scheme, compresses);
            options.num_threads = 2;
            RecipeFlags flags;
            flags.scheme = scheme;
            flags.methods = {"magnitude"};
            flags.mask_structure = "2:4";
            Recipe recipe = recipe_from_flags(flags);
            recipe.compresses_zeros = compresses;
            Pipeline pipeline(options, recipe);
            pipeline.run({});
            pipeline.publish();
            return options.output;
        };
        const std::filesystem::path with_zeros = pruned(false);
        const std::filesystem::path without = pruned(true);
        const bool is_float8 = scheme == std::string("FP8_DYNAMIC");
        const Logits found = logits_of(without);
        const Logits expected = logits_of(with_zeros);
        CHECK(found.greedy == expected.greedy);
        // Sums have another order; what lies between two codes of x may then become the other one.
        CHECK(furthest(found, expected) < (is_float8 ? 0.02f : 1e-5f) * largest(expected));
        CHECK(furthest(found, logits_of(source_path("models/demo"))) > 0.02f * largest(expected));
        const Checkpoint written = Checkpoint::open(without);
        const std::string linear = "model.layers.0.mlp.down_proj.";
        CHECK_FALSE(written.find(linear + "weight").has_value());
        CHECK(written.find(linear + "compressed")->describe() ==
              (is_float8 ? "float8_e4m3[256, 256]" : "bfloat16[256, 256]"));
        CHECK(written.find(linear + "bitmask")->describe() == "uint8[256, 64]");
        CHECK(written.find(linear + "shape")->as<int64_t>()[1] == 512);
        const auto said = read_quantization_config(without);
        REQUIRE(said->sparsity().has_value());
        CHECK(said->sparsity()->format == "sparse-24-bitmask");
        CHECK(said->sparsity()->targets == std::vector<std::string>{"Linear"});
        CHECK((said->scheme_for("model.layers.0.mlp.down_proj") != nullptr) == is_float8);
        CHECK(std::filesystem::file_size(without / "model.safetensors") <
              std::filesystem::file_size(with_zeros / "model.safetensors"));
    }
}

TEST_CASE("an embedding that is stored quantized is dequantized when it is loaded") {
    const char* const name = "model.embed_tokens";
    const test::Folder folder;
    const std::filesystem::path model = folder.path() / "model";
    test::copy_demo(model);
    const Checkpoint demo = Checkpoint::open(test::demo_folder());
    ThreadPool threads(2);
    QuantizationScheme scheme = find_preset_scheme("W8A16").scheme;
    scheme.weights->group_size = 32;
    const Tensor table = converted(*demo.find(std::string(name) + ".weight"), DType::f32, threads);
    const std::vector<NamedTensor> packed =
        pack(round_to_nearest(table.view(), *scheme.weights, DType::bf16, threads), name,
             "pack-quantized", DType::bf16);
    std::vector<TensorToWrite> tensors;
    for (const NamedTensor& tensor : packed) tensors.push_back({tensor.name, tensor.tensor.view()});
    for (const std::string_view other : demo.names()) {
        if (!other.starts_with(name)) tensors.push_back({std::string(other), *demo.find(other)});
    }
    std::filesystem::remove(model / "model.safetensors");
    write_safetensors(model / "model.safetensors", tensors);
    QuantizationConfig::Fields fields;
    fields.groups = {{{"Embedding"}, scheme}};
    std::filesystem::remove(model / "config.json");
    write_config(test::demo_folder(), model, QuantizationConfig(fields), false);
    const DivergenceReport report = test::compared_with_demo(model, folder.path());
    CHECK(report.mean_kld < 0.01);
    CHECK(report.mean_kld > 0.0);
    // What is made of it would lose the embedding's scales.
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              HookedModel(model, threads);
          }).find("embedding is quantized") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
