// Options that say which forms a model's calls and reasoning have.
#pragma once

#include <string>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct OutputFormatOptions {
    // A name of docs/tool-calling.md; "auto": what the model's template shows; "none".
    std::string tool_calls = "auto";
    std::string reasoning = "auto";
};

OptionList<OutputFormatOptions> output_format_options();

}  // namespace nvllm::server
