// Items of /v1/responses in the words of a chat.
//
// Include it only in .cc files: the JSON library comes with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/server/openai/request_limits.h"

namespace nvllm::server {

// Appends what the value of "input" says, a text or items, to the messages of a chat. `ignored`
// gets the names of members that say something and are not followed, here and below.
std::optional<Fault> add_input(const nlohmann::ordered_json& input, const RequestLimits& limits,
                               nlohmann::ordered_json& messages, std::vector<std::string>& ignored);

// {"type": "function", "name": ...} as {"type": "function", "function": ...}.
Result<nlohmann::ordered_json> function_of_response_tool(const nlohmann::ordered_json& tool,
                                                         const std::string& position,
                                                         std::vector<std::string>& ignored);

}  // namespace nvllm::server
