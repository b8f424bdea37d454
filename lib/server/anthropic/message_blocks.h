// Messages and tools of the Anthropic API in the words of the OpenAI API.
//
// Include it only in .cc files: the JSON library comes with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/server/openai/request_limits.h"

namespace nvllm::server::anthropic {

// The values of "system" (null: absent) and "messages" as the messages of a chat, at least one.
// Results of tools become messages of their own before the other blocks. `ignored` gets the names
// of members that say something and are not followed, here and below.
Result<nlohmann::ordered_json> chat_messages(const nlohmann::ordered_json& system,
                                             const nlohmann::ordered_json& messages,
                                             const RequestLimits& limits,
                                             std::vector<std::string>& ignored);

// {"name", "description", "input_schema"} as {"type": "function", "function": ...}.
Result<nlohmann::ordered_json> function_of_tool(const nlohmann::ordered_json& tool,
                                                const std::string& position,
                                                std::vector<std::string>& ignored);

}  // namespace nvllm::server::anthropic
