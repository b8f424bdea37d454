// Requests as JSON: the fields of the OpenAI API and vLLM's extensions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/engine/input_processor.h"

namespace nvllm {

struct JsonRequest {
    RequestInput input;
    std::string prompt_text;               // empty for ids and messages
    std::optional<std::string> custom_id;  // of an OpenAI batch line
    // Which adapter it names, or that it wants none; empty: it says neither.
    std::optional<std::string> adapter;
    std::string model;         // as it names it; which one answers is not decided by it alone
    bool says_format = false;  // it says what the answer is held to, also when that is nothing
};

// One request object: `prompt` (text or ids), `prompt_token_ids` or `messages`, and any sampling
// field; or a line of an OpenAI batch file, whose `body` is such an object. Absent fields have the
// values of `defaults`. Faults (bad_data) name the field, its allowed values, and for an unknown
// field the nearest known one; no field is ignored silently.
Result<JsonRequest> request_from_json(const nlohmann::ordered_json& object,
                                      const SamplingParams& defaults,
                                      size_t max_messages = SIZE_MAX);

// The names that request_from_json() knows.
std::vector<std::string_view> request_fields();

// "unknown field 'x'; did you mean 'y'?" (bad_data), with the nearest of the known names, if any is
// near.
Fault unknown_field(const std::string& name, std::span<const std::string_view> known);

// As above from text, with a bound on nesting.
Result<JsonRequest> request_from_json_text(const std::string& text, const SamplingParams& defaults);

}  // namespace nvllm
