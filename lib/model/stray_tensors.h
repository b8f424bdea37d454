// Tensors of a checkpoint that a model did not ask for: which of them can be left alone.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nvllm {

struct StrayTensors {
    // Of a module or a layer that the model computes with: it would answer otherwise with them.
    std::vector<std::string> inside;
    // Of modules that are not the model's: other heads, layers beyond its last, draft layers.
    std::vector<std::string> outside;
};

// `read` and `unread`: names of tensors.
StrayTensors find_stray_tensors(std::span<const std::string> read,
                                std::span<const std::string> unread);

// "v_head (2 tensors), score": modules of tensors that are outside. REQUIRES: at least one.
std::string describe_stray_modules(std::span<const std::string> read,
                                   std::span<const std::string> outside);

}  // namespace nvllm
