// How much of a model's quality is left: both models read the same text side by side.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/evaluate/divergence.h"
#include "lib/evaluate/perplexity.h"

namespace nvllm::quantize {

struct EvaluationOptions {
    std::filesystem::path base;   // the model's folder
    std::filesystem::path model;  // that of what was made of it
    std::filesystem::path text;
    int64_t context = 2048;   // tokens of a window; at most the model's own
    int64_t most_tokens = 0;  // to score; 0: all
    int num_threads = 0;      // 0: one for each physical core
};

// Windows of the text by the custom of the GPTQ paper (PerplexityConvention::hf); `progress` is
// told the share that is done. Products in float32 on both sides. Throws not_found, bad_data.
DivergenceReport evaluate(const EvaluationOptions& options,
                          const std::function<void(double share)>& progress);

// "perplexity 4.21 before, 4.35 after ..." in a few lines.
std::string evaluation_text(const DivergenceReport& report);

}  // namespace nvllm::quantize
