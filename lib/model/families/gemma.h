// Gemma, Gemma 2 and the text model of Gemma 3.
#pragma once

#include "lib/model/families/decoder.h"

namespace nvllm {

std::unique_ptr<Model> make_gemma(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings);
std::unique_ptr<Model> make_gemma2(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings);
std::unique_ptr<Model> make_gemma3(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings);

}  // namespace nvllm
