// The interface as an OpenAPI document, made from the tables of routes, parameters and options.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/server/access/route_list.h"
#include "lib/server/config/server_config.h"

namespace nvllm::server {

// OpenAPI 3.1; without the administration's routes. x-nvllm-limits has the options that bound what
// clients may do, with the values in force and the response beyond them.
nlohmann::ordered_json openapi_document(const RouteList& routes, const std::string& version,
                                        const ServerConfig& config);

}  // namespace nvllm::server
