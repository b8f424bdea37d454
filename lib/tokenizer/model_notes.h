// All that a model's files say and that is not heeded, for every program to tell at its start.
#pragma once

#include <string>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// One line a note, each with the name of its file. `weights`: of the weights' files, empty: none.
// `tokenizer` may be null.
std::vector<std::string> model_notes(const ModelConfig& config, const std::string& weights,
                                     const Tokenizer* tokenizer,
                                     const GenerationConfig& generation);

}  // namespace nvllm
