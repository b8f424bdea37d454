// Keys that are used, harmless, or named.
#include "lib/base/unused_keys.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace nvllm {
namespace {

const std::vector<HarmlessKey> kHarmless = {{"dropout"}, {"num_beams", "1"}, {"biases", "[]"}};

std::vector<std::string> unused(const char* object) {
    return unused_keys(nlohmann::json::parse(object), {"top_k"}, kHarmless);
}

TEST_CASE("a key is used, harmless, or named") {
    CHECK(unused(R"({"top_k": 5, "dropout": 0.1, "num_beams": 1, "biases": []})").empty());
    CHECK(unused(R"({"zeta": 1, "num_beams": 4, "biases": [2], "alpha": {}})") ==
          std::vector<std::string>{"alpha", "biases", "num_beams", "zeta"});
}

TEST_CASE("null and private keys say nothing") {
    CHECK(unused(R"({"zeta": null, "_name_or_path": "x"})").empty());
}

TEST_CASE("the note names the file and no more than a screen of keys") {
    CHECK(unused_keys_note("config.json", {}).empty());
    CHECK(unused_keys_note("config.json", std::vector<std::string>{"a", "b"}) ==
          "config.json: not used: a, b");
    const std::vector<std::string> many(40, std::string(100, 'x'));
    const std::string note = unused_keys_note("f", many);
    CHECK(note.size() < 2400);
    CHECK(note.ends_with("and 8 more"));
}

}  // namespace
}  // namespace nvllm
