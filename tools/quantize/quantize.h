// The commands of nvllm-quantize, each in a file of its own.
#pragma once

#include <filesystem>
#include <string>

#include "lib/cli/commands.h"
#include "lib/cli/options.h"
#include "tools/quantize/quantize_options.h"

namespace nvllm::quantize_tool {

// To standard error.
void say(const std::string& text);

int run_quantize(const Invocation& invocation);
// Of --merge-lora, a way to run "quantize".
int run_merge(const QuantizeOptions& options, const std::filesystem::path& model,
              const OptionSet& given);
int run_report(const Invocation& invocation);
int run_compare(const Invocation& invocation);

}  // namespace nvllm::quantize_tool
