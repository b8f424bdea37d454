// What sentence-transformers writes beside a model: modules, pooling modes, and files that say
// nothing good.
#include "lib/checkpoint/pooling_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using nlohmann::json;

json module_of(const std::string& type, const std::string& path) {
    return {{"idx", 0},
            {"name", "0"},
            {"path", path},
            {"type", "sentence_transformers.models." + type}};
}

const json kTransformer = module_of("Transformer", "");
const json kPooling = module_of("Pooling", "1_Pooling");
const json kNormalize = module_of("Normalize", "2_Normalize");

PoolingConfig read(const json& modules, const json& pooling,
                   const std::string& folder = "1_Pooling") {
    const test::TemporaryFolder directory;
    if (!modules.is_null()) directory.write("modules.json", modules.dump());
    if (!pooling.is_null()) {
        directory.write(std::filesystem::path(folder) / "config.json", pooling.dump());
    }
    return read_pooling_config(directory.path());
}

TEST_CASE("pooling config: none") {
    const PoolingConfig config = read(nullptr, nullptr);
    CHECK_FALSE(config.row);
    CHECK_FALSE(config.normalize);
    CHECK_FALSE(config.fault);
}

TEST_CASE("pooling config: every mode that is supported, in both spellings") {
    const std::vector<std::tuple<const char*, const char*, PooledRow>> modes = {
        {"pooling_mode_cls_token", "cls", PooledRow::first},
        {"pooling_mode_mean_tokens", "mean", PooledRow::mean},
        {"pooling_mode_lasttoken", "lasttoken", PooledRow::last}};
    for (const auto& [key, name, row] : modes) {
        CAPTURE(name);
        json pooling = {{"word_embedding_dimension", 32},
                        {"pooling_mode_cls_token", false},
                        {"pooling_mode_max_tokens", false}};
        pooling[key] = true;
        CHECK(read(nullptr, pooling).row == row);
        CHECK(read(nullptr, {{"pooling_mode", name}}).row == row);
        CHECK_FALSE(read(nullptr, pooling).fault);
    }
}

TEST_CASE("pooling config: modules say whether vectors are normalised, and where the mode is") {
    const json mean = {{"pooling_mode_mean_tokens", true}};
    CHECK_FALSE(read(nullptr, mean).normalize);
    CHECK(read({kTransformer, kPooling}, mean).normalize == false);
    CHECK(read({kTransformer, kPooling, kNormalize}, mean).normalize == true);
    const json other = module_of("Pooling", "3_Other");
    CHECK(read({kTransformer, other}, mean, "3_Other").row == PooledRow::mean);
    CHECK_FALSE(read({kTransformer, other}, mean).row);
}

TEST_CASE("pooling config: what is not supported is a fault of embeddings, not of the model") {
    const auto fault_of = [](const json& modules, const json& pooling) {
        const PoolingConfig config = read(modules, pooling);
        REQUIRE(config.fault);
        return config.fault->message;
    };
    CHECK(fault_of(nullptr, {{"pooling_mode_max_tokens", true}}).find("pooling_mode_max_tokens") !=
          std::string::npos);
    CHECK(fault_of(nullptr, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}})
              .find("more than one") != std::string::npos);
    CHECK(fault_of(nullptr, {{"pooling_mode", "attention"}}).find("another name") !=
          std::string::npos);
    // Linears of tokens, of vectors that are normalised already, and of others' code.
    const json cls = {{"pooling_mode_cls_token", true}};
    const json dense = module_of("Dense", "3_Dense");
    json foreign = dense;
    foreign["type"] = "pylate.models.Dense.Dense";
    for (const json& modules :
         {json{kTransformer, dense, kPooling}, json{kTransformer, kPooling, kNormalize, dense},
          json{kTransformer, kPooling, foreign}}) {
        CHECK(fault_of(modules, cls).find("Dense") != std::string::npos);
    }
}

// A model with these linears behind its pooling.
PoolingConfig read_linears(const std::vector<json>& linears) {
    const test::TemporaryFolder directory;
    json modules = {kTransformer, kPooling};
    for (size_t i = 0; i < linears.size(); ++i) {
        const std::string folder = std::to_string(i + 2) + "_Dense";
        modules.push_back(module_of("Dense", folder));
        directory.write(std::filesystem::path(folder) / "config.json", linears[i].dump());
    }
    modules.push_back(kNormalize);
    directory.write("modules.json", modules.dump());
    return read_pooling_config(directory.path());
}

TEST_CASE("pooling config: linears behind the pooling") {
    const PoolingConfig config =
        read_linears({{{"in_features", 32},
                       {"out_features", 96},
                       {"bias", false},
                       {"activation_function", "torch.nn.modules.linear.Identity"}},
                      {{"in_features", 96},
                       {"out_features", 20},
                       {"module_input_name", "sentence_embedding"},
                       {"module_output_name", nullptr},
                       {"activation_function", "torch.nn.modules.activation.Tanh"}}});
    CHECK_FALSE(config.fault);
    CHECK(config.normalize == true);
    REQUIRE(config.dense.size() == 2);
    CHECK(config.dense[0].folder == "2_Dense");
    CHECK(config.dense[0].in == 32);
    CHECK(config.dense[0].out == 96);
    CHECK_FALSE(config.dense[0].bias);
    CHECK(config.dense[0].function == DenseModule::Function::identity);
    CHECK(config.dense[1].bias);
    CHECK(config.dense[1].function == DenseModule::Function::tanh);
    CHECK(config.vector_size(32) == 20);
    CHECK(PoolingConfig().vector_size(32) == 32);
}

TEST_CASE("pooling config: linears that are not supported are a fault of embeddings") {
    const json linear = {{"in_features", 32}, {"out_features", 32}};
    const std::vector<std::pair<json, const char*>> changes = {
        {{{"activation_function", "torch.nn.modules.activation.GELU"}}, "Identity and Tanh"},
        {{{"activation_function", "my.Identity"}}, "Identity and Tanh"},
        {{{"module_input_name", "token_embeddings"}}, "pooled vector"},
        {{{"in_features", nullptr}}, "in_features"},
        {{{"out_features", 0}}, "out_features"},
        {{{"in_features", 31}}, "32 values go into a linear of 31"}};
    for (const auto& [change, reason] : changes) {
        CAPTURE(change.dump());
        json changed = linear;
        changed.update(change);
        const PoolingConfig config = read_linears({linear, changed});
        REQUIRE(config.fault);
        CHECK(config.fault->message.find(reason) != std::string::npos);
        CHECK(config.vector_size(32) == 32);
    }
}

TEST_CASE("pooling config: prompts of texts") {
    const auto read_prompts = [](const json& file) {
        const test::TemporaryFolder directory;
        directory.write("config_sentence_transformers.json", file.dump());
        return read_pooling_config(directory.path());
    };
    const json prompts = {{"query", "search: "}, {"document", ""}};
    const PoolingConfig config =
        read_prompts({{"prompts", prompts}, {"default_prompt_name", "query"}});
    CHECK(config.prompts.size() == 2);
    CHECK(config.prompts.at("query") == "search: ");
    CHECK(config.default_prompt == "query");
    CHECK(config.pools_prompts);
    CHECK(read_prompts({{"default_prompt_name", nullptr}}).prompts.empty());
    CHECK_THROWS_AS(read_prompts({{"prompts", prompts}, {"default_prompt_name", "other"}}), Error);
    CHECK_THROWS_AS(read_prompts({{"prompts", {{"query", 5}}}}), Error);
    CHECK_FALSE(read(nullptr, {{"pooling_mode", "mean"}, {"include_prompt", false}}).pools_prompts);
}

TEST_CASE("pooling config: broken files, and paths that lead elsewhere") {
    CHECK_THROWS_AS(read({{"modules", 1}}, nullptr), Error);
    CHECK_THROWS_AS(read({1, 2}, nullptr), Error);
    CHECK_THROWS_AS(read(nullptr, {1}), Error);
    CHECK_THROWS_AS(read(nullptr, {{"pooling_mode_cls_token", "yes"}}), Error);
    for (const char* path : {"../1_Pooling", "/etc", "..", ".", "", "a/b"}) {
        CAPTURE(path);
        CHECK_THROWS_AS(read({module_of("Pooling", path)}, nullptr), Error);
    }
}

}  // namespace
}  // namespace nvllm
