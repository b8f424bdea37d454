// Whole runs over the bundled model: what is written is what was solved, in shards or not.
#include "lib/quantize/pipeline.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "lib/base/file.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"

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
