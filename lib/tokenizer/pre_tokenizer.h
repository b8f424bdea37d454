// Pre-tokenizers: text cut into the pieces that a model sees one at a time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/json_view.h"

namespace nvllm {

struct Piece {
    std::string_view text;
    bool at_start = false;  // begins where the original text begins
};

// Pieces and the texts that were made on the way; pieces point into the text given and into
// `texts`.
struct Pieces {
    std::vector<Piece> list;
    std::deque<std::string> texts;

    std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

// Immutable; thread-safe.
class PreTokenizer {
  public:
    virtual ~PreTokenizer() = default;
    virtual void apply(Pieces& pieces) const = 0;
};

// The "pre_tokenizer" section of tokenizer.json. Throws Error{bad_data} for one it does not know.
std::unique_ptr<PreTokenizer> load_pre_tokenizer(const JsonView& section);

}  // namespace nvllm
