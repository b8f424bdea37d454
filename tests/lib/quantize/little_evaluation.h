// How far a model lies from the bundled one, on a sentence.
#pragma once

#include "lib/base/file.h"
#include "lib/quantize/evaluation.h"

namespace nvllm::test {

// `folder` is given a file of the sentence.
inline DivergenceReport compared_with_demo(const std::filesystem::path& model,
                                           const std::filesystem::path& folder) {
    write_file(folder / "text.txt",
               "Once upon a time there was a little dog. The dog liked to play with a red ball.");
    quantize::EvaluationOptions evaluation;
    evaluation.base = std::filesystem::path(NVLLM_SOURCE_DIR) / "models" / "demo";
    evaluation.model = model;
    evaluation.text = folder / "text.txt";
    evaluation.num_threads = 2;
    return evaluate(evaluation, {});
}

}  // namespace nvllm::test
