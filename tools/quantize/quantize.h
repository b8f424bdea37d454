// The commands of nvllm-quantize, each in a file of its own.
#pragma once

#include "lib/cli/commands.h"

namespace nvllm::quantize_tool {

int run_quantize(const Invocation& invocation);
int run_report(const Invocation& invocation);
int run_compare(const Invocation& invocation);

}  // namespace nvllm::quantize_tool
