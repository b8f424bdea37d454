// The types that a key-value cache may have, by the words of --kv-cache-dtype.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace nvllm {

// Empty for auto, which leaves it to the checkpoint: default_kv_type().
std::optional<DType> kv_cache_type(const std::string& word);

// All words, auto first.
std::vector<std::string> kv_cache_words();

}  // namespace nvllm
