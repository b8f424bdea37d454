// Finds a model that can serve a request now.
#pragma once

#include <memory>
#include <string>

#include "lib/server/http/api_error.h"
#include "lib/server/models/model_set.h"

namespace nvllm::server {

// By any of its names; the first model for an empty one. Null if it is unknown, not loaded or
// without an engine that runs; `error` says which.
std::shared_ptr<HostedModel> find_ready(const ModelSet& models, const std::string& name,
                                        ApiError& error);

}  // namespace nvllm::server
