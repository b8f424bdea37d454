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
    CHECK(fault_of({kTransformer, kPooling, module_of("Dense", "2_Dense")},
                   {{"pooling_mode_cls_token", true}})
              .find("Dense") != std::string::npos);
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
