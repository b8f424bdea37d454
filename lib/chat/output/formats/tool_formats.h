// The tool formats, each in a file of its own.
#pragma once

#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

ToolCallFormat hermes_format();
ToolCallFormat qwen3_coder_format();
ToolCallFormat seed_oss_format();
ToolCallFormat llama3_json_format();
ToolCallFormat pythonic_format();
ToolCallFormat mistral_format();
ToolCallFormat deepseek_v3_format();
ToolCallFormat deepseek_v31_format();
ToolCallFormat deepseek_v32_format();
ToolCallFormat glm45_format();
ToolCallFormat granite_format();
ToolCallFormat phi4_mini_json_format();
ToolCallFormat kimi_k2_format();
ToolCallFormat minimax_m2_format();
ToolCallFormat internlm_format();
ToolCallFormat jamba_format();
ToolCallFormat generic_json_format();

}  // namespace nvllm::output
