// Prompt processing and generation alone, the two tests of llama-bench, through the engine.
//
// Tokenisation and detokenisation of prompts take no part (prompts are ids). Sampling does: it is
// greedy, one argmax a token, and the first test of a prompt ends with one. Detokenising what was
// generated runs in the same loop.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/measure/engine_load.h"

namespace nvllm {

// One test: a prompt of num_prompt tokens, num_generated tokens one after the other, or both, with
// `depth` tokens in the cache before.
struct MicroTest {
    int32_t num_prompt = 0;
    int32_t num_generated = 0;
    int32_t depth = 0;

    // "pp512", "tg128", "pp512+tg128", "pp512 @ d4096".
    std::string name() const;
};

// The product of all depths with: each prompt length alone, each generated length alone, each pair
// together. Zeros give no test.
struct MicroTestLists {
    std::vector<int32_t> prompts, generated, depths = {0};
    std::vector<MicroTest> together;
};
std::vector<MicroTest> micro_tests(const MicroTestLists& lists);

struct MicroResult {
    MicroTest test;
    std::vector<double> samples_ns;
    std::string time;  // ISO 8601, when the test began

    std::vector<double> tokens_per_second() const;
};

// `repeats` samples after one that is dropped (when `warms_up`). What is timed: for prompts, from
// the first step to the first token; for generation, from the first token to the last, so that
// num_generated decode steps lie between. REQUIRES: the engine's prefix cache is on. Throws usage
// when the depth is no multiple of the block size or does not fit the cache; else as
// EngineLoad::run.
// A signal ends it with the samples there are; Interrupted when there is none. `done` is told of
// each sample, the one that is dropped too.
MicroResult measure_micro(EngineLoad& load, const MicroTest& test, int32_t repeats, bool warms_up,
                          uint64_t seed, const std::function<void()>& done = {});

// What the rows say of the model and the machine.
struct MicroSetting {
    std::string version, model, cpu;
    std::string type;  // "llama bfloat16"
    uint64_t model_bytes = 0;
    int64_t num_parameters = 0;
    int32_t batch_tokens = 0;  // n_batch, n_ubatch
    int32_t threads = 0;
    std::string cache_type;
};

// llama-bench's fields.
nlohmann::ordered_json micro_json(const MicroResult& result, const MicroSetting& setting);
// llama-bench's table: model, size, params, backend, threads, test, t/s as "mean ± deviation".
std::string micro_markdown(std::span<const MicroResult> results, const MicroSetting& setting);
// A header and a line for each, every field quoted.
std::string micro_csv(std::span<const MicroResult> results, const MicroSetting& setting);

}  // namespace nvllm
