// What the flags of vLLM's and llama.cpp's servers that are about serving mean to nvllm-serve.
#pragma once

#include <span>

#include "lib/cli/foreign_flags.h"

namespace nvllm::server {

// Of vLLM's front end.
std::span<const ForeignFlag> vllm_serve_flags();
// Of llama-server.
std::span<const ForeignFlag> llama_server_flags();

}  // namespace nvllm::server
