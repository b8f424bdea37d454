// Walks over the vocabulary.
#include "lib/view/special_tokens.h"

namespace nvllm::view {

std::vector<SpecialToken> special_tokens(const Tokenizer& tokenizer) {
    std::vector<SpecialToken> tokens;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        if (!tokenizer.is_special(id)) continue;
        std::string role;
        if (id == tokenizer.bos_id()) role = "bos";
        if (id == tokenizer.eos_id()) role = role.empty() ? "eos" : "bos, eos";
        tokens.push_back({id, tokenizer.token_text(id), role});
    }
    return tokens;
}

}  // namespace nvllm::view
