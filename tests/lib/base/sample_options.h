// Options structs like those of the programs, for the tests of everything that reads field lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/options.h"

namespace nvllm::test {

enum class SampleDtype { automatic, float32, bfloat16 };

struct SampleEngine {
    int32_t max_num_seqs = 256;
    std::optional<int32_t> max_model_len;
    uint64_t cache_bytes = uint64_t{1} << 30;
    SampleDtype dtype = SampleDtype::automatic;
    std::string policy = "fcfs";
    bool prefix_caching = true;
};

struct SampleSampling {
    float temperature = 1.0f;
    std::optional<int32_t> max_tokens;
    std::vector<std::string> stop;
    std::vector<int32_t> stop_token_ids;
    std::optional<uint64_t> seed;
    std::string prompt;
    std::string system_prompt;
    bool echo = false;
    float presence_penalty = 0.0f;
};

struct SampleOptions {
    SampleEngine engine;
    SampleSampling sampling;
    std::string model;
    OptionSet options;

    SampleOptions() {
        OptionList<SampleOptions> general("");
        general.group("Model");
        general.add("model", &SampleOptions::model, "The model.", short_name('m'), positional(),
                    value_name("MODEL"));
        options.add(general, *this);

        OptionList<SampleEngine> engine_list("engine");
        engine_list.group("Engine");
        engine_list.add("max-num-seqs", &SampleEngine::max_num_seqs, "Sequences computed at once.",
                        range(1, 4096));
        engine_list.add("max-model-len", &SampleEngine::max_model_len, "Longest context.",
                        at_least(1), takes_suffixes(), default_text("from the model"));
        engine_list.add("cache-bytes", &SampleEngine::cache_bytes, "Memory of the cache.",
                        at_least(1 << 20), counts_bytes());
        engine_list.add_choice<SampleDtype>("dtype", &SampleEngine::dtype, "Type of weights.",
                                            {{"auto", SampleDtype::automatic},
                                             {"float32", SampleDtype::float32},
                                             {"bfloat16", SampleDtype::bfloat16}});
        engine_list.add("policy", &SampleEngine::policy, "Who goes first.",
                        choices({"fcfs", "priority"}), unlisted({"random"}));
        engine_list.add("prefix-caching", &SampleEngine::prefix_caching,
                        "Share the cached blocks of equal prompt beginnings between requests, so "
                        "that a long system "
                        "prompt is computed once.");
        options.add(engine_list, engine);

        OptionList<SampleSampling> list("sampling");
        list.group("Sampling");
        list.add("temperature", &SampleSampling::temperature, "Randomness.", range(0.0, 2.0),
                 alias("temp"));
        list.add("max-tokens", &SampleSampling::max_tokens, "Tokens at most.", at_least(1),
                 short_name('n'), alias("predict"), alias("n-predict"));
        list.add("stop", &SampleSampling::stop, "Texts that stop.");
        list.add("stop-token-ids", &SampleSampling::stop_token_ids, "Ids that stop.", at_least(0));
        list.add("seed", &SampleSampling::seed, "Seed.", short_name('s'));
        list.add("prompt", &SampleSampling::prompt, "Text to go on from.", short_name('p'));
        list.add("system-prompt", &SampleSampling::system_prompt, "System prompt.",
                 alias("system"));
        list.add("echo", &SampleSampling::echo, "Show the prompt.");
        list.add("presence-penalty", &SampleSampling::presence_penalty, "Penalty.", range(-2, 2));
        options.add(list, sampling);
    }
};

}  // namespace nvllm::test
