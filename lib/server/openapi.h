// The interface as an OpenAPI document, made from the table of routes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace nvllm::server {

// OpenAPI 3.1; without the administration's routes.
nlohmann::ordered_json openapi_document(const std::string& version);

}  // namespace nvllm::server
