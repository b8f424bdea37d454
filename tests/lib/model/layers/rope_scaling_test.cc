// Every kind of RoPE scaling against transformers (scripts/fixtures/make_rope.py), from config.json
// to frequencies.
#include "lib/model/layers/rope_scaling.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/model/registry.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

TEST_CASE("rope_frequencies: every kind is computed as transformers does") {
    std::ifstream file(test::source_path("tests/fixtures/families/rope_scaling.json"));
    const nlohmann::json cases = nlohmann::json::parse(file);
    CHECK(cases.size() == 15);
    for (const nlohmann::json& item : cases) {
        const std::string name = item.at("name");
        CAPTURE(name);
        const ModelConfig config = parse_model_config(item.at("config").dump(), name);
        const RopeFrequencies found =
            rope_frequencies(config.rope, config.head_dim, config.max_positions,
                             item.at("max_model_len").get<int64_t>());
        const auto expected = item.at("inverse_frequencies").get<std::vector<double>>();
        CHECK(static_cast<double>(found.attention_factor) ==
              doctest::Approx(item.at("attention_factor").get<double>()).epsilon(1e-6));
        REQUIRE(found.inverse.size() == expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
            // A few units in the last place of a float: pow() differs by one between libraries.
            CHECK(static_cast<double>(found.inverse[i]) ==
                  doctest::Approx(expected[i]).epsilon(5e-7).scale(0));
        }
    }
}

// What depends on the length is settled by the longest sequence, not by each, but for sequences
// that stay within longrope's original context.
TEST_CASE("rope_frequencies: length-dependent kinds follow the maximum length") {
    RopeConfig rope;
    rope.kind = "longrope";
    rope.original_max_positions = 100;
    rope.factor = 4.0;
    rope.short_factor = {1.0, 1.0};
    rope.long_factor = {2.0, 4.0};
    const RopeFrequencies within = rope_frequencies(rope, 4, 400, 100);
    const RopeFrequencies beyond = rope_frequencies(rope, 4, 400, 101);
    CHECK(within.inverse[0] == 1.0f);
    CHECK(beyond.inverse[0] == 0.5f);
    CHECK(beyond.inverse[1] == within.inverse[1] / 4.0f);
    CHECK(within.attention_factor == beyond.attention_factor);
    // Sequences that cannot leave the original context have what they would have alone.
    CHECK(original_context(rope, 400, 100) == 0);
    CHECK(within.inverse_within.empty());
    CHECK(original_context(rope, 400, 101) == 100);
    CHECK(beyond.inverse_within == within.inverse);

    rope = {};
    rope.kind = "dynamic";
    rope.factor = 2.0;
    CHECK(rope_frequencies(rope, 8, 512, 64).inverse ==
          rope_frequencies(rope, 8, 512, 512).inverse);
    CHECK(rope_frequencies(rope, 8, 512, 1024).inverse[3] <
          rope_frequencies(rope, 8, 512, 512).inverse[3]);
    CHECK(original_context(rope, 512, 1024) == 0);
    CHECK(rope_frequencies(rope, 8, 512, 1024).inverse_within.empty());
}

}  // namespace
}  // namespace nvllm
