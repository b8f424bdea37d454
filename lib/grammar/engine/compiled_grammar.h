// What xgrammar compiled. Included by this folder alone: the engine's types are seen nowhere else.
#pragma once

#include <xgrammar/xgrammar.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "lib/grammar/engine/mask_cache.h"
#include "lib/grammar/whitespace_limit.h"

namespace nvllm {

class CompiledGrammar {
  public:
    CompiledGrammar(xgrammar::CompiledGrammar given, int32_t vocabulary,
                    std::shared_ptr<const WhitespaceTokens> whitespace_tokens,
                    std::shared_ptr<MaskCache> mask_cache)
        : compiled(std::move(given)),
          vocab_size(vocabulary),
          whitespace(std::move(whitespace_tokens)),
          masks(std::move(mask_cache)),
          id(masks->new_grammar()) {}

    const xgrammar::CompiledGrammar compiled;
    const int32_t vocab_size;
    const std::shared_ptr<const WhitespaceTokens> whitespace;  // null: no JSON is in it
    const std::shared_ptr<MaskCache> masks;
    const uint64_t id;  // in the cache
};

}  // namespace nvllm
