// What holding answers to JSON schemas costs: compiling, and a mask before each token. No model
// runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

struct GrammarCase {
    std::string where;                 // "FILE:3"
    std::string schema;                // JSON
    std::vector<std::string> answers;  // valid documents
};

// Lines {"schema": schema, "answers": [documents]}, or of the JSON-Schema-Test-Suite {"schema":
// schema, "tests": [{"data": document, "valid": boolean}]}. Throws not_found, io, and bad_data with
// file and line.
std::vector<GrammarCase> read_grammar_cases(const std::filesystem::path& file);

struct GrammarCostOptions {
    int32_t walks = 0;          // answers of tokens chosen at random among those allowed, a schema
    int32_t walk_tokens = 256;  // of one at most
    int32_t repeats = 3;        // readings of each document
    uint64_t seed = 0;
};

struct GrammarCost {
    std::string where = {};
    std::optional<std::string> refusal = {};  // the schema's; nothing else is there then
    double compile_ms = 0.0;
    std::vector<double> mask_us = {};    // of each mask
    std::vector<double> accept_us = {};  // of each token
    int32_t refused_answers = 0;         // documents that the schema does not take
};

// Throws usage when all would be compiled and no mask made: without documents and without walks.
void check_answers(std::span<const GrammarCase> cases, const GrammarCostOptions& options);

// In the order of the cases. `vocab_size`: the masks'. `done`: cases measured so far.
std::vector<GrammarCost> measure_grammars(const std::shared_ptr<const Tokenizer>& tokenizer,
                                          int32_t vocab_size, std::span<const GrammarCase> cases,
                                          const GrammarCostOptions& options,
                                          const std::function<void(size_t)>& done = {});

// Keys {mean,median,p99,max}_{mask,accept}_us, {mean,max}_compile_ms, num_{schemas,refused_schemas,
// refused_answers,masks}, samples.
nlohmann::ordered_json grammar_cost_json(std::span<const GrammarCost> costs);
std::string grammar_cost_table(std::span<const GrammarCost> costs);

}  // namespace nvllm
