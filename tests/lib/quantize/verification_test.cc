// What is written is loaded and run before it is published; what is broken is not.
#include "lib/quantize/verification.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/file.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/demo_runs.h"
#include "tests/lib/quantize/little_evaluation.h"

namespace nvllm::quantize {
namespace {

constexpr uint16_t kNan = 0x7fc0, kInfinity = 0x7f80;
const char* const kUp = "model.layers.0.mlp.up_proj.weight";

TEST_CASE("a value of the source that is no number is named by every method") {
    for (const char* const method : {"rtn", "gptq", "awq", "smoothquant", "sparsegpt"}) {
        for (const uint16_t value : {kNan, kInfinity}) {
            CAPTURE(method);
            const test::Folder folder;
            test::copy_demo(folder.path() / "model");
            test::overwrite_half(folder.path() / "model", kUp, 5 * 256 + 7, value);
            RecipeFlags flags;
            flags.methods = {method};
            Pipeline pipeline(test::little_run(folder.path() / "out", folder.path() / "model"),
                              recipe_from_flags(flags));
            const std::string message =
                test::error_of(ErrorKind::bad_data, [&] { pipeline.run({}); });
            CHECK(message.find(std::string("tensor ") + kUp + " holds") != std::string::npos);
            CHECK(message.find("at [5, 7]") != std::string::npos);
        }
    }
}

TEST_CASE("errors of blocks are those of the schemes, and are kept in the report") {
    const auto errors = [](const char* scheme) {
        const test::Folder folder;
        RecipeFlags flags;
        flags.methods = {"rtn"};
        flags.scheme = scheme;
        Pipeline pipeline(test::little_run(folder.path() / "out"), recipe_from_flags(flags));
        const PipelineResult result = pipeline.run({});
        write_report(pipeline.report(result), folder.path());
        CHECK(read_report(folder.path()).block_errors == result.block_errors);
        CHECK(report_warnings(pipeline.report(result)).empty());
        REQUIRE(result.block_errors.size() == 4);
        return *std::max_element(result.block_errors.begin(), result.block_errors.end());
    };
    const double eight = errors("W8A16"), four = errors("W4A16"), three = errors("W3A16");
    CHECK(eight < 1e-3);
    CHECK(four > 10 * eight);
    CHECK(three > four);
    CHECK(three < 0.9);
}

// A copy of a family's fixture with a tokenizer of a few words, and a text of them.
PipelineOptions with_words(const std::string& family, const std::filesystem::path& folder) {
    constexpr int kWords = 60;
    std::filesystem::copy(
        std::filesystem::path(NVLLM_SOURCE_DIR) / "tests/fixtures/families" / family,
        folder / "model", std::filesystem::copy_options::recursive);
    std::string vocab, text;
    for (int i = 0; i < kWords; ++i) vocab += fmt::format("{}\"w{}\": {}", i > 0 ? ", " : "", i, i);
    for (int i = 0; i < 1200; ++i) text += fmt::format("w{} ", i * i % kWords);
    write_file(folder / "model/tokenizer.json",
               R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
                   "post_processor": null, "decoder": null,
                   "model": {"type": "WordLevel", "unk_token": "w0", "vocab": {)" +
                   vocab + "}}}");
    write_file(folder / "text.txt", text);
    PipelineOptions options = test::little_run(folder / "out", folder / "model");
    options.calibration.files = {(folder / "text.txt").string()};
    options.calibration.max_seq_length = 64;
    options.calibration.num_samples = 64;
    return options;
}

TEST_CASE("every way of folding gives what was solved, in every family") {
    for (const char* const method : {"smoothquant", "awq", "rotation"}) {
        for (const char* const family :
             {"llama", "mixtral", "phi3", "qwen2", "qwen3_moe", "gemma2"}) {
            if (method == std::string("rotation") && family == std::string("gemma2")) continue;
            CAPTURE(method);
            CAPTURE(family);
            const test::Folder folder;
            RecipeFlags flags;
            flags.methods = {method};
            flags.scheme = "W8A16";
            flags.group_size = "16";
            Pipeline pipeline(with_words(family, folder.path()), recipe_from_flags(flags));
            const PipelineResult result = pipeline.run({});
            for (const double error : result.block_errors) CHECK(error < 1e-2);
            CHECK(std::any_of(
                result.linears.begin(), result.linears.end(),
                [&](const LinearRecord& record) { return record.method.find(method) == 0; }));
        }
    }
}

TEST_CASE("experts of a stack are written one by one, and give what was solved") {
    for (const char* const method : {"rtn", "gptq", "awq"}) {
        for (const char* const family : {"gpt_oss", "granite4_moe", "gemma4_moe"}) {
            CAPTURE(method);
            CAPTURE(family);
            const test::Folder folder;
            RecipeFlags flags;
            flags.methods = {method};
            flags.scheme = "W8A16";
            flags.group_size = "channel";
            Pipeline pipeline(with_words(family, folder.path()), recipe_from_flags(flags));
            const PipelineResult result = pipeline.run({});
            for (const double error : result.block_errors) CHECK(error < 1e-2);
            const Checkpoint written = Checkpoint::open(pipeline.unpublished());
            int64_t experts = 0;
            for (const std::string_view name : written.names()) {
                experts += name.ends_with(".up_proj.weight_packed") &&
                           name.find(".experts.") != std::string_view::npos;
                if (name.find("expert") != std::string_view::npos) {
                    CHECK(written.find(name)->rank <= 2);
                }
            }
            CHECK(experts >= 8);
        }
    }
}

TEST_CASE("a written model that is not what was solved is refused") {
    const test::Folder folder;
    RecipeFlags flags;
    flags.methods = {"rtn"};
    flags.scheme = "W8A16";
    Pipeline pipeline(test::little_run(folder.path() / "out"), recipe_from_flags(flags));
    pipeline.run({});
    ThreadPool threads(2);
    HookedModel model(test::demo_folder(), threads);
    const std::vector<int32_t> tokens = {5, 6, 7, 8, 9, 10, 11, 12};
    const WrittenModel written{pipeline.unpublished(),
                               [](int32_t) { return std::optional<SolvedBlock>(); }};
    CHECK(verify_written(model, pipeline.plan(), written, tokens).size() == 4);
    const auto refusal = [&] {
        return test::error_of(ErrorKind::bad_data,
                              [&] { verify_written(model, pipeline.plan(), written, tokens); });
    };
    // As a fold that only one side knows of: some channels of a norm are eight times as large.
    const char* const norm = "model.layers.1.input_layernorm.weight";
    const Checkpoint checkpoint = Checkpoint::open(pipeline.unpublished());
    std::vector<BFloat16> before(256);
    std::copy_n(checkpoint.find(norm)->as<BFloat16>(), 256, before.begin());
    for (int64_t i = 0; i < 256; i += 2) {
        const auto value = BFloat16(8.0f * static_cast<float>(before[static_cast<size_t>(i)]));
        test::overwrite_half(pipeline.unpublished(), norm, i, value.bits);
    }
    CHECK(refusal().find("block 1 does not give what was solved") != std::string::npos);
    test::overwrite_half(pipeline.unpublished(), norm, 4, kNan);
    CHECK(refusal().find("block 1 gives values that are not finite") != std::string::npos);
    for (int64_t i = 0; i < 256; ++i) {
        test::overwrite_half(pipeline.unpublished(), norm, i, before[static_cast<size_t>(i)].bits);
    }
    CHECK(verify_written(model, pipeline.plan(), written, tokens).size() == 4);
    // Of another scheme than config.json says.
    std::string config = read_file(pipeline.unpublished() / "config.json");
    config.replace(config.find("\"num_bits\": 8"), 13, "\"num_bits\": 4");
    std::filesystem::remove(pipeline.unpublished() / "config.json");
    write_file(pipeline.unpublished() / "config.json", config);
    CHECK(refusal().find("weight_packed") != std::string::npos);
}

TEST_CASE("sources that are quantized already are dequantized first") {
    for (const char* const scheme : {"FP8_BLOCK", "W8A16"}) {
        CAPTURE(scheme);
        const test::Folder folder;
        RecipeFlags flags;
        flags.methods = {"rtn"};
        flags.scheme = scheme;
        Pipeline first(test::little_run(folder.path() / "first"), recipe_from_flags(flags));
        const PipelineResult once = first.run({});
        write_report(first.report(once), first.unpublished());
        first.publish();
        flags.methods = {"gptq"};
        flags.scheme = "W8A16";
        flags.group_size = "32";
        flags.targets = {"re:.*(q|k|v|o|up|gate)_proj"};
        PipelineOptions options = test::little_run(folder.path() / "out", folder.path() / "first");
        Pipeline second(options, recipe_from_flags(flags));
        const std::vector<std::string> notes = second.notes();
        CHECK(std::any_of(notes.begin(), notes.end(), [](const auto& note) {
            return note.find("quantized already") != std::string::npos;
        }));
        const PipelineResult result = second.run({});
        CHECK(result.linears.size() == 28);
        write_report(second.report(result), second.unpublished());
        second.publish();
        const Checkpoint written = Checkpoint::open(folder.path() / "out");
        // What is not quantized again is stored dense.
        CHECK(written.find("model.layers.0.mlp.down_proj.weight")->dtype == DType::bf16);
        CHECK_FALSE(written.find("model.layers.0.mlp.down_proj.weight_scale").has_value());
        CHECK(written.find("model.layers.0.mlp.up_proj.weight_packed").has_value());
        CHECK(test::compared_with_demo(folder.path() / "out", folder.path()).mean_kld < 0.05);
    }
}

TEST_CASE("a source that was quantized may become dense again") {
    const test::Folder folder;
    RecipeFlags flags;
    flags.methods = {"rtn"};
    flags.scheme = "FP8_DYNAMIC";
    Pipeline first(test::little_run(folder.path() / "first"), recipe_from_flags(flags));
    first.run({});
    first.publish();
    flags.methods = {"magnitude"};
    flags.scheme = "none";
    flags.solver.sparsity = 0.01;
    Pipeline second(test::little_run(folder.path() / "out", folder.path() / "first"),
                    recipe_from_flags(flags));
    second.run({});
    second.publish();
    CHECK_FALSE(read_quantization_config(folder.path() / "out").has_value());
    CHECK(test::compared_with_demo(folder.path() / "out", folder.path()).mean_kld < 0.05);
}

TEST_CASE("a source whose values changed is another one") {
    const test::Folder folder;
    test::copy_demo(folder.path() / "model");
    PipelineOptions options = test::little_run(folder.path() / "out", folder.path() / "model");
    RecipeFlags flags;
    size_t done = 0;
    PipelineEvents events;
    events.is_stopped = [&] { return done > 7; };
    events.linear_done = [&](const LinearRecord&, size_t now, size_t) { done = now; };
    {
        Pipeline pipeline(options, recipe_from_flags(flags));
        CHECK_THROWS_AS(pipeline.run(events), Stopped);
    }
    const auto modified =
        std::filesystem::last_write_time(folder.path() / "model/model.safetensors");
    // Far from where a tensor begins, and with the time that the file had.
    for (int64_t i = 0; i < 4096; ++i) {
        test::overwrite_half(folder.path() / "model", "model.layers.0.mlp.down_proj.weight",
                             70000 + i, 0);
    }
    std::filesystem::last_write_time(folder.path() / "model/model.safetensors", modified);
    options.interrupted = InterruptedRun::resumed;
    Pipeline pipeline(options, recipe_from_flags(flags));
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              pipeline.run({});
          }).find("files/0/digest was") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
