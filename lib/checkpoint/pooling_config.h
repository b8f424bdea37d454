// How a model's authors make one vector of a text, as sentence-transformers writes it down:
// modules.json, the config.json of its pooling module and of linears behind it, and
// config_sentence_transformers.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace nvllm {

// Of the hidden states of all positions.
enum class PooledRow : uint8_t { first, mean, last };

// A linear of the pooled vector and a function behind it.
struct DenseModule {
    enum class Function : uint8_t { identity, tanh };

    std::string folder;  // of its weights, in the model's own
    int64_t in = 0;
    int64_t out = 0;
    bool bias = true;
    Function function = Function::tanh;
};

// Fields that the files leave open stay empty.
struct PoolingConfig {
    std::optional<PooledRow> row;
    std::vector<DenseModule> dense;  // in their order; what each reads is as wide as the one before
    std::optional<bool> normalize;   // to length 1
    // What texts of a kind begin with, by its name ("query"); and the kind of all texts that have
    // none, empty: no kind.
    std::map<std::string, std::string, std::less<>> prompts;
    std::string default_prompt;
    bool pools_prompts = true;  // their tokens are pooled too
    // The files ask for something that is not supported, so that no vector of this model would be
    // the one that its authors mean.
    std::optional<Fault> fault;

    // Values of a vector that is made of hidden states of so many.
    int64_t vector_size(int64_t hidden_size) const {
        return fault || dense.empty() ? hidden_size : dense.back().out;
    }
};

// Empty fields when the directory has no such files. Throws bad_data when they are broken.
PoolingConfig read_pooling_config(const std::filesystem::path& directory);

}  // namespace nvllm
