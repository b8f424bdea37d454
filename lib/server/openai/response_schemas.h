// The schemas of all responses, as JSON Schema: made from the types that their JSON is written
// from.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace nvllm::server {

// Every response by its name, for #/components/schemas.
nlohmann::ordered_json response_schemas();

}  // namespace nvllm::server
