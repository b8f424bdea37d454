// Whole runs over the bundled model: what is written is what was solved, in shards or not.
#include "lib/quantize/pipeline.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/registry.h"
#include "tests/error_of.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/quantize/folder.h"
#include "tests/lib/quantize/little_evaluation.h"

namespace nvllm::quantize {
namespace {

std::filesystem::path demo() { return std::filesystem::path(NVLLM_SOURCE_DIR) / "models" / "demo"; }

PipelineOptions little(const std::filesystem::path& output) {
    PipelineOptions options;
    options.model = demo();
    options.output = output;
    options.calibration.num_samples = 2;
    options.calibration.max_seq_length = 600;
    options.num_threads = 2;
    return options;
}

Recipe recipe_of(const std::vector<std::string>& methods, const std::string& scheme) {
    RecipeFlags flags;
    flags.methods = methods;
    flags.scheme = scheme;
    return recipe_from_flags(flags);
}

TEST_CASE("shards hold every tensor once, and their index says where") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "out");
    options.shard_bytes = 600'000;
    Pipeline pipeline(options, recipe_of({"rtn"}, "W4A16"));
    CHECK(pipeline.calibration() == nullptr);
    const PipelineResult result = pipeline.run({});
    pipeline.publish();
    CHECK(result.linears.size() == 28);
    const Checkpoint written = Checkpoint::open(options.output);
    CHECK(written.num_files() > 2);
    CHECK(written.data_bytes() == result.sizes.written_bytes);
    // Weight, scale and shape of each; embedding and norms as they were.
    CHECK(written.names().size() == 28 * 3 + 10);
    CHECK(written.find("model.norm.weight").has_value());
}

TEST_CASE("scaled channels leave the dense model what it was") {
    const test::Folder folder;
    // 16 bits of a float: what is left is what folding did.
    RecipeFlags flags;
    flags.methods = {"smoothquant"};
    flags.scheme = "W8A16";
    flags.group_size = "32";
    Pipeline pipeline(little(folder.path() / "out"), recipe_from_flags(flags));
    const PipelineResult result = pipeline.run({});
    for (const LinearRecord& record : result.linears) {
        INFO(record.name);
        CHECK(record.relative_error < 1e-3);
        const bool is_behind_norm = record.name.find("o_proj") == std::string::npos &&
                                    record.name.find("down_proj") == std::string::npos;
        CHECK((record.method == "smoothquant+rtn") == is_behind_norm);
    }
    const Checkpoint written = Checkpoint::open(pipeline.unpublished());
    const auto norm = *written.find("model.layers.0.input_layernorm.weight");
    const auto before =
        *pipeline.model().checkpoint().find("model.layers.0.input_layernorm.weight");
    CHECK(std::memcmp(norm.data, before.data, 512) != 0);
}

TEST_CASE("an output matrix that is the embedding is quantized beside it") {
    const test::Folder folder;
    RecipeFlags flags;
    flags.methods = {"gptq"};
    flags.scheme = "W8A16";
    flags.group_size = "32";
    flags.ignore.clear();
    Pipeline pipeline(little(folder.path() / "out"), recipe_from_flags(flags));
    const PipelineResult result = pipeline.run({});
    REQUIRE(result.linears.size() == 29);
    CHECK(result.linears.back().name == "lm_head");
    CHECK(result.linears.back().error_is_of_output);
    CHECK(result.linears.back().relative_error < 1e-3);
    CHECK(pipeline.resources().output_bytes ==
          doctest::Approx(static_cast<double>(result.sizes.written_bytes)).epsilon(0.02));
    const Checkpoint written = Checkpoint::open(pipeline.unpublished());
    const Checkpoint& dense = pipeline.model().checkpoint();
    const auto table = *written.find("model.embed_tokens.weight");
    const auto table_before = *dense.find("model.embed_tokens.weight");
    REQUIRE(table.numel() == table_before.numel());
    CHECK(std::memcmp(table.data, table_before.data,
                      static_cast<size_t>(table.numel()) * dtype_bytes(table.dtype)) == 0);
    CHECK(written.find("lm_head.weight_packed").has_value());
    CHECK_FALSE(read_model_config(pipeline.unpublished()).tie_word_embeddings);
    // Served with it, the model says what it said.
    CHECK(test::compared_with_demo(pipeline.unpublished(), folder.path()).mean_kld < 0.01);
}

TEST_CASE("routers of sparse layers stay dense, and the file says so") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "out");
    options.model = std::filesystem::path(NVLLM_SOURCE_DIR) / "tests/fixtures/families/mixtral";
    RecipeFlags flags;
    flags.methods = {"rtn"};
    flags.scheme = "W8A16";
    flags.group_size = "16";
    Pipeline pipeline(options, recipe_from_flags(flags));
    for (const LinearRecord& record : pipeline.run({}).linears) {
        CHECK_FALSE(record.name.ends_with(".gate"));
    }
    const auto written = read_quantization_config(pipeline.unpublished());
    REQUIRE(written.has_value());
    CHECK(written->scheme_for("model.layers.0.block_sparse_moe.gate") == nullptr);
    CHECK(written->scheme_for("model.layers.0.self_attn.q_proj") != nullptr);
}

float largest_of(const TensorView& storage) {
    float largest = 0.0f;
    for (int64_t i = 0; i < storage.numel(); ++i) {
        largest = std::max(largest, std::abs(storage.as<float>()[i]));
    }
    return largest;
}

struct CacheExtent {
    float keys = 0.0f;
    float values = 0.0f;
};

// Of each layer, when a model that is served caches the texts.
std::vector<CacheExtent> cached_by(const std::filesystem::path& directory,
                                   const CalibrationSet& texts) {
    ThreadPool threads(2);
    ModelLoadOptions options;
    options.directory = directory;
    options.dtype = DType::f32;
    options.threads = &threads;
    const std::unique_ptr<Model> model = load_model(options);
    test::Driver driver(*model, threads, DType::f32, 16);
    for (const std::vector<int32_t>& sample : texts.samples) driver.hidden_of(sample);
    std::vector<CacheExtent> extents;
    for (const KvLayer& layer : driver.layers()) {
        extents.push_back({largest_of(layer.keys), largest_of(layer.values)});
    }
    return extents;
}

// Names and their place are those of compressed-tensors: beside the layer's projections, [1].
CacheExtent stored_extent(const Checkpoint& written, size_t layer) {
    const auto value = [&](const char* name) {
        const auto found = written.find(fmt::format("model.layers.{}.self_attn.{}", layer, name));
        REQUIRE(found.has_value());
        CHECK(found->numel() == 1);
        CHECK(found->dtype == DType::bf16);
        return 448.0f * static_cast<float>(*found->as<BFloat16>());
    };
    return {value("k_scale"), value("v_scale")};
}

TEST_CASE("scales of keys and values are those of what the model caches of the text") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "out");
    // Weights stay dense, so that the cache is the source's own.
    RecipeFlags flags;
    flags.scheme = "none";
    flags.float8_cache = true;
    Pipeline pipeline(options, recipe_from_flags(flags));
    CHECK(pipeline.run({}).linears.empty());
    const auto said = read_quantization_config(pipeline.unpublished());
    REQUIRE(said.has_value());
    CHECK(said->kv_cache_scheme() == float8_cache_scheme());
    CHECK(said->scheme_for("model.layers.0.self_attn.q_proj") == nullptr);
    const Checkpoint written = Checkpoint::open(pipeline.unpublished());
    const std::vector<CacheExtent> cached = cached_by(demo(), *pipeline.calibration());
    REQUIRE(cached.size() == 4);
    for (size_t layer = 0; layer < cached.size(); ++layer) {
        const CacheExtent stored = stored_extent(written, layer);
        // As near as bfloat16 is.
        CHECK(stored.keys == doctest::Approx(cached[layer].keys).epsilon(1.0 / 256));
        CHECK(stored.values == doctest::Approx(cached[layer].values).epsilon(1.0 / 256));
    }
}

// tests/fixtures/cache_scales: what scripts/fixtures/make_cache_scales.py had llm-compressor find.
TEST_CASE("scales of keys and values are llm-compressor's of the same samples, by both rules") {
    const test::Folder folder;
    const auto fixture =
        std::filesystem::path(NVLLM_SOURCE_DIR) / "tests" / "fixtures" / "cache_scales";
    std::string observer;
    SUBCASE("") { observer = "static_minmax"; }
    SUBCASE("") { observer = "minmax"; }
    CAPTURE(observer);
    PipelineOptions options = little(folder.path() / "out");
    options.calibration.files = {(fixture / "samples.jsonl").string()};
    options.calibration.num_samples = 100;
    options.calibration.max_seq_length = 2048;
    options.calibration.concatenates = false;
    options.calibration.shuffles = false;
    RecipeFlags flags;
    flags.scheme = "none";
    flags.float8_cache = true;
    Recipe recipe = recipe_from_flags(flags);
    REQUIRE(set_observer(*recipe.modifiers.back().kv_cache_scheme, observer));
    Pipeline pipeline(options, recipe);
    pipeline.run({});
    const Checkpoint written = Checkpoint::open(pipeline.unpublished());
    const auto scales = nlohmann::json::parse(read_file(fixture / "scales.json"));
    for (size_t layer = 0; layer < 4; ++layer) {
        const CacheExtent stored = stored_extent(written, layer);
        const auto check = [&](const std::string& name, float extent) {
            const std::string key = fmt::format("model.layers.{}.self_attn.{}", layer, name);
            INFO(key);
            // Ours is rounded to bfloat16, as the model's weights are; their sums have other
            // orders.
            const double scale = extent / 448.0f;
            CHECK(scale == doctest::Approx(scales[observer][key].get<double>()).epsilon(1.0 / 256));
        };
        check("k_scale", stored.keys);
        check("v_scale", stored.values);
    }
}

// The demo with as many heads of keys and values as of queries, each of its own being there twice.
void write_multi_head_demo(const std::filesystem::path& folder) {
    std::filesystem::copy(demo(), folder, std::filesystem::copy_options::recursive);
    nlohmann::json config = nlohmann::json::parse(read_file(demo() / "config.json"));
    config["num_key_value_heads"] = config["num_attention_heads"];
    write_file(folder / "config.json", config.dump());
    const Checkpoint source = Checkpoint::open(demo());
    std::vector<Tensor> held;
    std::vector<TensorToWrite> tensors;
    for (const std::string_view name : source.names()) {
        ConstTensorView view = *source.find(name);
        if (name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight")) {
            held.push_back(Tensor::allocate(view.dtype, {2 * view.dim(0), view.dim(1)}));
            const size_t bytes = held.back().bytes() / 2;
            auto* const to = held.back().mutable_view().as<std::byte>();
            std::memcpy(to, view.data, bytes);
            std::memcpy(to + bytes, view.data, bytes);
            view = held.back().view();
        }
        tensors.push_back({std::string(name), view});
    }
    write_safetensors(folder / "model.safetensors", tensors);
}

TEST_CASE("scales of values follow channels that were scaled") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "out");
    options.model = folder.path() / "demo";
    write_multi_head_demo(options.model);
    RecipeFlags flags;
    flags.methods = {"awq"};
    flags.scheme = "W8A16";
    flags.group_size = "32";
    flags.float8_cache = true;
    Pipeline pipeline(options, recipe_from_flags(flags));
    pipeline.run({});
    const std::vector<CacheExtent> before = cached_by(options.model, *pipeline.calibration());
    const auto cached = cached_by(pipeline.unpublished(), *pipeline.calibration());
    const Checkpoint written = Checkpoint::open(pipeline.unpublished());
    bool any_moved = false;
    for (size_t layer = 0; layer < cached.size(); ++layer) {
        const CacheExtent stored = stored_extent(written, layer);
        CHECK(stored.keys == doctest::Approx(cached[layer].keys).epsilon(0.03));
        CHECK(stored.values == doctest::Approx(cached[layer].values).epsilon(0.03));
        any_moved =
            any_moved || std::abs(cached[layer].values / before[layer].values - 1.0f) > 0.1f;
    }
    CHECK(any_moved);
}

TEST_CASE("models without a place for scales of keys and values are refused") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "out");
    options.model = std::filesystem::path(NVLLM_SOURCE_DIR) / "tests/fixtures/families/gpt2";
    RecipeFlags flags;
    flags.scheme = "none";
    flags.float8_cache = true;
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              Pipeline(options, recipe_from_flags(flags));
          }).find("GPT2LMHeadModel has no self_attn") != std::string::npos);
}

TEST_CASE("products with the text have the type of the weights unless another is asked for") {
    const auto errors = [](std::optional<DType> asked, DType expected) {
        const test::Folder folder;
        PipelineOptions options = little(folder.path() / "out");
        options.compute_type = asked;
        Pipeline pipeline(options, recipe_of({"gptq"}, "W4A16"));
        CHECK(pipeline.model().compute_type() == expected);
        std::vector<double> result;
        for (const LinearRecord& record : pipeline.run({}).linears) {
            result.push_back(record.relative_error);
        }
        return result;
    };
    const std::vector<double> rounded = errors(std::nullopt, DType::bf16);
    const std::vector<double> exact = errors(DType::f32, DType::f32);
    CHECK(rounded == errors(DType::bf16, DType::bf16));
    CHECK(rounded != exact);
    REQUIRE(rounded.size() == exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
        CHECK(rounded[i] == doctest::Approx(exact[i]).epsilon(0.05));
    }
}

TEST_CASE("a stopped run keeps what it did") {
    const test::Folder folder;
    const PipelineOptions options = little(folder.path() / "out");
    size_t asked = 0;
    {
        Pipeline pipeline(options, recipe_of({"gptq"}, "W4A16"));
        PipelineEvents events;
        events.is_stopped = [&] { return ++asked > 40; };
        CHECK_THROWS_AS(pipeline.run(events), Stopped);
    }
    CHECK_FALSE(std::filesystem::exists(options.output));
    PipelineOptions again = options;
    again.interrupted = InterruptedRun::resumed;
    Pipeline pipeline(again, recipe_of({"gptq"}, "W4A16"));
    CHECK(pipeline.run({}).num_resumed > 0);
}

TEST_CASE("activations in a file give the same weights") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "memory");
    Pipeline in_memory(options, recipe_of({"gptq"}, "W4A16"));
    in_memory.run({});
    const std::string expected = read_file(in_memory.unpublished() / "model.safetensors");
    options.output = folder.path() / "spilled";
    options.memory_limit_bytes =
        in_memory.resources().peak_bytes() - in_memory.resources().activation_bytes;
    Pipeline spilled(options, recipe_of({"gptq"}, "W4A16"));
    REQUIRE(spilled.resources().spills);
    spilled.run({});
    CHECK(read_file(spilled.unpublished() / "model.safetensors") == expected);
}

TEST_CASE("what does not fit is refused before anything is computed") {
    const test::Folder folder;
    PipelineOptions options = little(folder.path() / "out");
    options.memory_limit_bytes = 1000;
    const Pipeline pipeline(options, recipe_of({"gptq"}, "W4A16"));
    CHECK(test::error_of(ErrorKind::does_not_fit, [&] {
              pipeline.check_resources();
          }).find("--max-seq-length") != std::string::npos);
}

TEST_CASE("blocks of names") {
    CHECK(block_of_name("model.layers.13.mlp.up_proj") == 13);
    CHECK(block_of_name("h.2.attn.c_attn.weight") == 2);
    CHECK(block_of_name("lm_head") == std::nullopt);
    CHECK(block_of_name("model.layers2.x") == std::nullopt);
}

}  // namespace
}  // namespace nvllm::quantize
