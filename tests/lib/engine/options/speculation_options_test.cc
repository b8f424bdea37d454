// The JSON object and the short forms.
#include "lib/engine/options/speculation_options.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace nvllm {
namespace {

SpeculationConfig read(const std::string& config) {
    return speculation_settings({.config = config,
                                 .method = "auto",
                                 .draft_model = {},
                                 .num_speculative_tokens = {}})
        .config;
}

std::string refusal(const SpeculationOptions& options) {
    return test::error_of(ErrorKind::usage, [&] { speculation_settings(options); });
}

TEST_CASE("speculation options: nothing asked for, nothing proposed") {
    CHECK(!speculation_settings({}).config.enabled());
}

TEST_CASE("speculation options: vLLM's keys") {
    const SpeculationConfig config = read(
        R"({"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 5,
            "prompt_lookup_min": 3})");
    CHECK(config.method == "ngram");
    CHECK(config.num_speculative_tokens == 6);
    CHECK(config.prompt_lookup_max == 5);
    CHECK(config.prompt_lookup_min == 3);
    CHECK(config.adaptive);
    CHECK(!read(R"({"adaptive": false})").adaptive);
    CHECK(read(R"({"model": "[ngram]"})").method == "ngram");
    CHECK(read("{}").method == "ngram");
}

TEST_CASE("speculation options: of one limit alone, the other follows") {
    CHECK(read(R"({"prompt_lookup_max": 1})").prompt_lookup_min == 1);
    CHECK(read(R"({"prompt_lookup_min": 9})").prompt_lookup_max == 9);
}

TEST_CASE("speculation options: trees, of methods that draft by a model") {
    const SpeculationConfig tree = read(
        R"({"model": "heads/demo", "num_speculative_tokens": 5, "tree_width": 4,
            "tree_tokens": 12})");
    CHECK(tree.is_tree());
    CHECK(tree.most_drafts() == 12);
    CHECK(read(R"({"model": "m", "num_speculative_tokens": 3, "tree_width": 2})").most_drafts() ==
          6);
    CHECK(read(R"({"model": "m", "tree_width": 10})").most_drafts() == 32);
    CHECK(read(R"({"model": "m", "tree_width": 1})").most_drafts() == 4);
    const auto refused = [](const char* config, const char* what) {
        const std::string said = refusal(
            {.config = config, .method = "auto", .draft_model = {}, .num_speculative_tokens = {}});
        CAPTURE(said);
        return said.find(what) != std::string::npos;
    };
    CHECK(refused(R"({"tree_width": 2})", "tree_width is of methods that draft by a model"));
    CHECK(refused(R"({"method": "suffix", "tree_tokens": 8})", "'suffix' proposes a chain"));
    CHECK(refused(R"({"model": "m", "tree_tokens": 8})", "tree_width is 1"));
    CHECK(
        refused(R"({"model": "m", "tree_width": 0})", "tree_width is 0; it must be from 1 to 16"));
    CHECK(
        refused(R"({"model": "m", "num_speculative_tokens": 32, "tree_width": 3})", "from 1 to 2"));
    CHECK(refused(R"({"model": "m", "tree_width": 4, "tree_tokens": 33})", "tree_tokens is 33"));
    CHECK(refused(R"({"model": "m", "tree_width": 4, "tree_tokens": 0})", "tree_tokens is 0"));
}

TEST_CASE("speculation options: short forms") {
    const SpeculationConfig config =
        speculation_settings(
            {.config = {}, .method = "auto", .draft_model = {}, .num_speculative_tokens = 3})
            .config;
    CHECK(config.method == "ngram");
    CHECK(config.num_speculative_tokens == 3);
    CHECK(speculation_settings(
              {.config = {}, .method = "ngram", .draft_model = {}, .num_speculative_tokens = {}})
              .config.enabled());
    CHECK(refusal({.config = R"({"num_speculative_tokens": 2})",
                   .method = "auto",
                   .draft_model = {},
                   .num_speculative_tokens = 3})
              .find("--num-speculative-tokens 3") != std::string::npos);
}

TEST_CASE("speculation options: methods of the worker and their models") {
    const auto settings = speculation_settings(
        {.config = R"({"method": "eagle3", "model": "head", "aux_layer_numbering": "behind_layer",
                       "masks_first_embedding": true})",
         .method = "auto",
         .draft_model = {},
         .num_speculative_tokens = {}});
    CHECK(settings.config.method == "eagle3");
    CHECK(settings.config.by_worker);
    CHECK(settings.draft_model == "head");
    CHECK(settings.reading.aux_layers == AuxLayerNumbering::behind_layer);
    CHECK(settings.reading.masks_first_embedding);
    CHECK(read(R"({"method": "mtp"})").by_worker);
    // The files say which method it is.
    const auto named = speculation_settings(
        {.config = {}, .method = "auto", .draft_model = "draft", .num_speculative_tokens = 2});
    CHECK(named.config.by_worker);
    CHECK(named.config.method.empty());
    CHECK(named.config.num_speculative_tokens == 2);
    CHECK(named.draft_model == "draft");
    CHECK(refusal({.config = R"({"model": "one"})",
                   .method = "auto",
                   .draft_model = "other",
                   .num_speculative_tokens = {}})
              .find("--draft-model 'other'") != std::string::npos);
}

TEST_CASE("speculation options: what cannot be is refused by name") {
    const auto refused = [](const std::string& config, const std::string& text) {
        const std::string message = refusal(
            {.config = config, .method = "auto", .draft_model = {}, .num_speculative_tokens = {}});
        CAPTURE(message);
        CHECK(message.starts_with("--speculative-config"));
        CHECK(message.find(text) != std::string::npos);
    };
    refused(R"({"prompt_lookup_maxi": 3})", "did you mean 'prompt_lookup_max'");
    refused(R"({"draft_tensor_parallel_size": 1})", "draft_tensor_parallel_size");
    refused(R"({"method": "medusa"})", "method is 'medusa'");
    refused(R"({"method": "eagle"})", "needs \"model\"");
    refused(R"({"method": "suffix", "model": "org/draft"})", "proposes without a model");
    refused(R"({"method": "eagle3", "aux_layer_numbering": "sglang"})", "layers_done");
    refused(R"({"num_speculative_tokens": 0})", "from 1 to 32");
    refused(R"({"num_speculative_tokens": "4"})", "num_speculative_tokens must be");
    refused(R"({"prompt_lookup_max": 2, "prompt_lookup_min": 3})", "prompt_lookup_min is 3");
    refused("[]", "JSON object");
    refused("{", "--speculative-config");
}

}  // namespace
}  // namespace nvllm
