// Writes the folder of a quantized model: shards, their index, config.json, and everything else as
// it was.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/checkpoint/quantization_config.h"
#include "lib/quantize/block_solution.h"

namespace nvllm::quantize {

// One shard holds at most this much, unless one tensor is larger.
inline constexpr uint64_t kShardBytes = uint64_t{5} << 30;

// Tensors that take the place of others, a block at a time so that no more is in memory.
struct Replacement {
    std::set<std::string, std::less<>>
        replaced;  // names that are in the source and not in the output
    size_t num_blocks = 0;
    std::function<std::vector<NamedTensor>(size_t block)> tensors;
};

struct WrittenSizes {
    uint64_t source_bytes = 0;
    uint64_t written_bytes = 0;  // of all tensors
};

// Weights of `source` with replacements into `folder`, at most `shard_bytes` in a file. Throws as
// write_safetensors().
WrittenSizes write_weights(const Checkpoint& source, const Replacement& replacement,
                           const std::filesystem::path& folder, uint64_t shard_bytes = kShardBytes);

// config.json of `source` with this quantization_config, or as it is. `unties`: the output matrix
// is no longer the embedding.
void write_config(const std::filesystem::path& source, const std::filesystem::path& folder,
                  const std::optional<QuantizationConfig>& config, bool unties);

// Copies tokenizer, templates, generation settings, licences: every file that is no weights and not
// written yet.
void copy_companions(const std::filesystem::path& source, const std::filesystem::path& folder);

}  // namespace nvllm::quantize
