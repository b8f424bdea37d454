// JSON as values of templates.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lib/jinja/value.h"

namespace nvllm::chat {

// `marked`: the texts within count as the request's, but for the usual roles. Throws
// TemplateFailure when it is nested too deeply.
Value value_of_json(const nlohmann::ordered_json& json, bool marked);

}  // namespace nvllm::chat
