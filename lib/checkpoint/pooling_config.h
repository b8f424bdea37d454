// How a model's authors make one vector of a text, as sentence-transformers writes it down:
// modules.json and the config.json of its pooling module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "lib/base/result.h"

namespace nvllm {

// Of the hidden states of all positions.
enum class PooledRow : uint8_t { first, mean, last };

// Fields that the files leave open stay empty.
struct PoolingConfig {
    std::optional<PooledRow> row;
    std::optional<bool> normalize;  // to length 1
    // The files ask for something that is not supported, so that no vector of this model would be
    // the one that its authors mean.
    std::optional<Fault> fault;
};

// Empty fields when the directory has no such files. Throws bad_data when they are broken.
PoolingConfig read_pooling_config(const std::filesystem::path& directory);

}  // namespace nvllm
