// Perplexity of a text through the engine.
#pragma once

#include <functional>

#include "lib/measure/engine_load.h"
#include "lib/quantize/perplexity.h"

namespace nvllm {

// `done` is told how many windows are finished. When a signal stops it, of the windows until then,
// in groups; Interrupted when there is none. Throws as score_sequences.
PerplexityResult measure_perplexity(EngineLoad& load, std::span<const Window> windows,
                                    const std::function<void(size_t)>& done = {});

}  // namespace nvllm
