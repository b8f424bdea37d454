// Divergence from a base model whose rows are in a file, through the engine.
#pragma once

#include <filesystem>
#include <functional>

#include "lib/measure/engine_load.h"
#include "lib/measure/perplexity.h"
#include "lib/quantize/divergence.h"

namespace nvllm {

// Writes the rows of every window to the file. Throws as score_rows and LogprobWriter.
void save_logprobs(EngineLoad& load, std::span<const Window> windows, int32_t context,
                   const std::filesystem::path& file, const std::function<void(size_t)>& done);

// Runs the windows of the file. Throws bad_data when its vocabulary is not the model's, and as
// score_rows and LogprobReader.
DivergenceReport measure_divergence(EngineLoad& load, const std::filesystem::path& file,
                                    const std::function<void(size_t)>& done);

}  // namespace nvllm
