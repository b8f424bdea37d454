// What a bench asks for: prompts, how much to generate, and when each request is sent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nvllm {

class Tokenizer;

// One request. Times are seconds from the start of the run.
struct WorkItem {
    std::vector<int32_t> prompt_ids;
    std::string text;  // for servers; empty: ids alone are known
    int32_t num_output_tokens = 1;
    bool ignore_eos = true;
    std::string adapter = {};  // by name; empty: the model alone
    double send_at_s = 0.0;
};

struct WorkloadOptions {
    std::string dataset = "random";
    std::optional<std::filesystem::path> path = {};  // of jsonl
    int32_t num_prompts = 64;
    int32_t input_len = 128;  // tokens
    int32_t output_len = 64;  // tokens; of jsonl: where a line does not say
    // Lengths are uniform in [length * (1 - ratio), length * (1 + ratio)], as in vLLM.
    double random_range_ratio = 0.0;
    int32_t prefix_len = 256;  // of prefix_repetition: tokens shared
    int32_t num_prefixes = 8;  // of prefix_repetition: different ones; input_len follows each
    uint64_t seed = 0;
};

// What random ids are drawn from and texts are read with.
struct TokenSource {
    int64_t size = 0;
    const Tokenizer* tokenizer = nullptr;  // may be null for all data sets but texts
};

// The names make_workload() takes, one row each.
//   random             ids drawn uniformly from the vocabulary
//   prefix_repetition  num_prefixes different beginnings, each repeated in turn, as vLLM's data set
//                      of this name; shows what a prefix cache saves
//   nano-vllm          the bench of nano-vllm: 256 sequences, input and output each uniform in
//                      100 to 1024 tokens (num_prompts and lengths are not read)
//   jsonl              a line is {"prompt": text} or {"prompt_token_ids": [...]}, with "max_tokens"
//                      (or "output_len") if it wants another length than output_len, and
//                      "ignore_eos": true if it must not end early
std::span<const char* const> dataset_names();

// The same options give the same requests on every machine. Throws usage for an unknown name or
// lengths below 1, not_found for a missing file, bad_data with file and line for a bad line.
std::vector<WorkItem> make_workload(const WorkloadOptions& options, const TokenSource& vocabulary);

// Prompt tokens of all items; the same with those that may be generated.
int64_t total_prompt_tokens(std::span<const WorkItem> items);
int64_t total_tokens(std::span<const WorkItem> items);

}  // namespace nvllm
