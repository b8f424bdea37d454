// What xgrammar compiled. Included by this folder alone: the engine's types are seen nowhere else.
#pragma once

#include <xgrammar/xgrammar.h>

#include <cstdint>

namespace nvllm {

class CompiledGrammar {
  public:
    CompiledGrammar(xgrammar::CompiledGrammar given, int32_t vocabulary)
        : compiled(std::move(given)), vocab_size(vocabulary) {}

    const xgrammar::CompiledGrammar compiled;
    const int32_t vocab_size;
};

}  // namespace nvllm
