// What llama-cli's flags about prompts, chats and sampling mean to nvllm-run.
#pragma once

#include <span>

#include "lib/cli/foreign_flags.h"

namespace nvllm::run {

std::span<const ForeignFlag> llama_cli_flags();

}  // namespace nvllm::run
