// Normalizers: what is done to text before it is cut into pieces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/tokenizer/json_view.h"
#include "lib/tokenizer/unicode/normalized_text.h"

namespace nvllm {

// Immutable; thread-safe. REQUIRES: the text is valid UTF-8, and stays so.
class Normalizer {
  public:
    virtual ~Normalizer() = default;
    virtual void apply(NormalizedText& text) const = 0;
};

// The "normalizer" section of tokenizer.json. Throws Error{bad_data} for one it does not know.
std::unique_ptr<Normalizer> load_normalizer(const JsonView& section);

}  // namespace nvllm
