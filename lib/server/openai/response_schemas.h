// What answers look like, as JSON Schema: made from the types that their JSON is written from.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lib/server/access/routes.h"

namespace nvllm::server {

// Every answer by its name, for #/components/schemas.
nlohmann::ordered_json response_schemas();

// The `content` of a good answer of this route: types of media and their schemas.
nlohmann::ordered_json response_content(RouteAction action);

}  // namespace nvllm::server
