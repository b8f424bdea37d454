// Gathering notes of a model's files.
#include "lib/tokenizer/model_notes.h"

namespace nvllm {

std::vector<std::string> model_notes(const ModelConfig& config, const std::string& weights,
                                     const Tokenizer* tokenizer,
                                     const GenerationConfig& generation) {
    std::vector<std::string> notes = config.notes;
    if (!weights.empty()) notes.push_back(weights);
    if (tokenizer != nullptr) {
        notes.insert(notes.end(), tokenizer->notes().begin(), tokenizer->notes().end());
    }
    notes.insert(notes.end(), generation.notes.begin(), generation.notes.end());
    return notes;
}

}  // namespace nvllm
