// What the flags of vLLM and llama.cpp that are about models and engines mean to an engine here.
#pragma once

#include <span>

#include "lib/cli/foreign_flags.h"

namespace nvllm {

// Where a model is named, for programs without an engine's options.
std::span<const ForeignFlag> hub_name_flags();
// Of vLLM's EngineArgs.
std::span<const ForeignFlag> vllm_engine_flags();
// Of what llama.cpp's programs have in common; its one-letter and two-letter names too.
std::span<const ForeignFlag> llama_cpp_engine_flags();

}  // namespace nvllm
