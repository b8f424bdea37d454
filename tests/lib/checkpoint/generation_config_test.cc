// generation_config.json: what changes the answer is read, all else is named.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/checkpoint/model_config.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using nlohmann::json;

TEST_CASE("generation config: absent, partial, broken") {
    const test::TemporaryFolder folder;
    const GenerationConfig none = read_generation_config(folder.path());
    CHECK(none.eos_token_ids.empty());
    CHECK_FALSE(none.temperature.has_value());

    folder.write(
        "generation_config.json",
        R"({"eos_token_id":[5,-1],"bos_token_id":3,"temperature":0.6,"top_p":0.95,"top_k":20,
                     "min_p":null,"repetition_penalty":1.1,"do_sample":true,"max_new_tokens":100})");
    const GenerationConfig config = read_generation_config(folder.path());
    CHECK(config.eos_token_ids == std::vector<int32_t>{5});
    CHECK(config.bos_token_id == 3);
    CHECK(config.temperature == 0.6f);
    CHECK(config.top_p == 0.95f);
    CHECK(config.top_k == 20);
    CHECK_FALSE(config.min_p.has_value());
    CHECK(config.repetition_penalty == 1.1f);
    CHECK(config.do_sample == true);
    CHECK(config.max_new_tokens == 100);

    for (const char* broken : {"{", "[]", R"({"temperature":"hot"})", R"({"top_p":2})",
                               R"({"eos_token_id":[4294967296]})"}) {
        folder.write("generation_config.json", broken);
        CHECK_THROWS_WITH_AS(read_generation_config(folder.path()),
                             doctest::Contains("generation_config.json"), Error);
    }
}

GenerationConfig generation_of(const test::TemporaryFolder& folder, const json& document) {
    folder.write("generation_config.json", document.dump());
    return read_generation_config(folder.path());
}

TEST_CASE("generation config: what changes the answer is read") {
    const test::TemporaryFolder folder;
    const GenerationConfig config =
        generation_of(folder, json::parse(R"({"max_length":50,"min_new_tokens":2,"min_length":9,
        "no_repeat_ngram_size":3,"bad_words_ids":[[5],[6,7]],"suppress_tokens":[1,-1],
        "begin_suppress_tokens":[2],"forced_bos_token_id":4,"forced_eos_token_id":[8,9],
        "exponential_decay_length_penalty":[10,1.5],"sequence_bias":[[[3],-2.5]],"typical_p":0.5,
        "top_h":0.25,"epsilon_cutoff":0.001,"eta_cutoff":0.0,"stop_strings":"END",
        "length_penalty":-1.0,"early_stopping":"never"})"));
    CHECK(config.notes.empty());
    CHECK(config.max_length == 50);
    CHECK(config.min_new_tokens == 2);
    CHECK(config.min_length == 9);
    CHECK(config.no_repeat_ngram_size == 3);
    CHECK(config.bad_words_ids == std::vector<std::vector<int32_t>>{{5}, {6, 7}});
    CHECK(config.suppress_tokens == std::vector<int32_t>{1});
    CHECK(config.begin_suppress_tokens == std::vector<int32_t>{2});
    CHECK(config.forced_bos_token_id == 4);
    CHECK(config.forced_eos_token_ids == std::vector<int32_t>{8, 9});
    CHECK(config.exponential_decay_length_penalty == std::pair(10, 1.5f));
    CHECK(config.token_biases == std::vector<std::pair<int32_t, float>>{{3, -2.5f}});
    CHECK(config.typical_p == 0.5f);
    CHECK(config.top_h == 0.25f);
    CHECK(config.epsilon_cutoff == 0.001f);
    CHECK_FALSE(config.eta_cutoff);
    CHECK(config.stop_strings == std::vector<std::string>{"END"});
    CHECK(config.length_penalty == -1.0f);
    CHECK(config.early_stopping == "never");
}

TEST_CASE("generation config: what cannot be followed is named") {
    const test::TemporaryFolder folder;
    const GenerationConfig config = generation_of(
        folder, json::parse(R"({"num_beams":4,"guidance_scale":1.5,"chat_format":"x","max_time":1,
        "sequence_bias":[[[3,4],-2.5]],"cache_implementation":"quantized","use_cache":false,
        "stop_strings":[""],"temperature":0.5})"));
    REQUIRE(config.notes.size() == 1);
    CHECK(config.notes[0].ends_with(
        "generation_config.json: not used: cache_implementation, chat_format, guidance_scale, "
        "max_time, num_beams, sequence_bias, stop_strings"));
    CHECK(config.token_biases.empty());
    CHECK(config.temperature == 0.5f);
    for (const char* broken :
         {R"({"bad_words_ids":[[]]})", R"({"bad_words_ids":[5]})", R"({"max_new_tokens":0})",
          R"({"exponential_decay_length_penalty":[1]})", R"({"sequence_bias":[5]})"}) {
        CAPTURE(broken);
        CHECK_THROWS_WITH_AS(generation_of(folder, json::parse(broken)),
                             doctest::Contains("generation_config.json"), Error);
    }
}

TEST_CASE("generation config: every key that transformers knows is used, harmless or named") {
    // What changes no answer, whatever the value; each was looked up in transformers.
    const std::set<std::string> kHarmless = {"assistant_confidence_threshold",
                                             "assistant_early_exit",
                                             "assistant_ensemble_weight",
                                             "assistant_lookbehind",
                                             "cache_config",
                                             "compile_config",
                                             "continuous_batching_config",
                                             "decoder_start_token_id",
                                             "disable_compile",
                                             "is_assistant",
                                             "low_memory",
                                             "max_cache_len",
                                             "max_matching_ngram_size",
                                             "num_assistant_tokens",
                                             "num_assistant_tokens_schedule",
                                             "output_attentions",
                                             "output_hidden_states",
                                             "output_logits",
                                             "output_scores",
                                             "pad_token_id",
                                             "prefill_chunk_size",
                                             "prompt_lookup_num_tokens",
                                             "renormalize_logits",
                                             "return_dict_in_generate",
                                             "speculation_type",
                                             "target_lookbehind",
                                             "transformers_version",
                                             "use_cache",
                                             "use_mtp",
                                             "_from_model_config"};
    const test::TemporaryFolder folder;
    std::ifstream file(test::source_path("tests/fixtures/known_keys.json"));
    const json keys = json::parse(file)["generation_config"];
    REQUIRE(keys.size() > 70);
    CHECK(generation_of(folder, keys).notes.empty());
    for (const auto& [key, otherwise] : keys.items()) {
        CAPTURE(key);
        // An object that is of no key's type.
        bool is_used_or_named = false;
        try {
            const GenerationConfig config = generation_of(folder, {{key, {{"a", 1}}}});
            is_used_or_named = !config.notes.empty() && config.notes[0].ends_with(": " + key);
        } catch (const Error& error) {
            is_used_or_named = std::string(error.what()).find(key) != std::string::npos;
        }
        CHECK(is_used_or_named == !kHarmless.contains(key));
    }
}

}  // namespace
}  // namespace nvllm
