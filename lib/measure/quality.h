// Perplexity of a text, and divergence from a base model whose rows are in a file, through the
// engine.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "lib/evaluate/divergence.h"
#include "lib/evaluate/perplexity.h"
#include "lib/measure/engine_load.h"

namespace nvllm {

// `done` is told how many windows are finished. When a signal stops it, of the windows until then,
// in groups; Interrupted when there is none. Throws as score_sequences.
PerplexityResult measure_perplexity(EngineLoad& load, std::span<const Window> windows,
                                    const std::function<void(size_t)>& done = {});

// Writes the rows of every window to the file. Throws as score_rows and LogprobWriter.
void save_logprobs(EngineLoad& load, std::span<const Window> windows, int32_t context,
                   const std::filesystem::path& file, const std::function<void(size_t)>& done);

// Runs the windows of the file. Throws bad_data when its vocabulary is not the model's, and as
// score_rows and LogprobReader.
DivergenceReport measure_divergence(EngineLoad& load, const std::filesystem::path& file,
                                    const std::function<void(size_t)>& done);

}  // namespace nvllm
