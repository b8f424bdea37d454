// Finds a model that can serve a request now.
#pragma once

#include <memory>
#include <string>

#include "lib/server/http/api_error.h"
#include "lib/server/models/model_set.h"

namespace nvllm::server {

// The adapter that a request wants which names this model so; empty: the model alone.
std::string adapter_named(const HostedModel& model, const std::string& name);

// By any of its names or those of its adapters; the first model for an empty one. Null if it is
// unknown, not loaded or without an engine that runs; `error` says which.
std::shared_ptr<HostedModel> find_ready(const ModelSet& models, const std::string& name,
                                        ApiError& error);

}  // namespace nvllm::server
