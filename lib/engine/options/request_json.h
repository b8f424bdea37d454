// Requests as JSON: the fields of the OpenAI API and vLLM's extensions, from one table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/engine/input_processor.h"

namespace nvllm {

struct JsonRequest {
    RequestInput input;
    std::string prompt_text;               // as given; empty for ids and messages
    std::optional<std::string> custom_id;  // of an OpenAI batch line
};

// One request object: `prompt` (text or ids), `prompt_token_ids` or `messages`, and any sampling
// field beside it; or a line of an OpenAI batch file, whose `body` is such an object. `defaults`
// holds for what is absent. Faults (bad_data) name the field, what it may be, and for an unknown
// field the nearest known one; nothing is ignored silently.
Result<JsonRequest> request_from_json(const nlohmann::ordered_json& object,
                                      const SamplingParams& defaults,
                                      size_t max_messages = SIZE_MAX);

// The names that request_from_json() knows.
std::vector<std::string_view> request_fields();

// As above from text, with a bound on nesting.
Result<JsonRequest> request_from_json_text(const std::string& text, const SamplingParams& defaults);

}  // namespace nvllm
