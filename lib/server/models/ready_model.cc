// Why a model cannot serve.
#include "lib/server/models/ready_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm::server {
namespace {

ApiError unknown_model(const std::string& name) {
    return {.status = 404,
            .message = fmt::format("the model '{}' is not served here; /v1/models lists those "
                                   "that are",
                                   name.substr(0, 128)),
            .code = "model_not_found",
            .param = "model"};
}

ApiError dead_engine(const HostedModel& model) {
    return {.status = 503,
            .message = fmt::format("the engine of '{}' could not be started again", model.name()),
            .code = "engine_dead"};
}

ApiError not_loaded(const HostedModel& model, ModelState state) {
    return {.status = 503,
            .message = fmt::format("the model '{}' is {}", model.name(), model_state_name(state)),
            .code = state == ModelState::failed ? "model_failed" : "loading",
            .retry_after_s = 1};
}

}  // namespace

std::string adapter_named(const HostedModel& model, const std::string& name) {
    const bool is_own =
        name.empty() || std::ranges::find(model.names(), name) != model.names().end();
    return is_own ? "" : name;
}

std::shared_ptr<HostedModel> find_ready(const ModelSet& models, const std::string& name,
                                        ApiError& error) {
    auto model = models.find(name);
    if (model == nullptr) {
        error = unknown_model(name);
        return nullptr;
    }
    if (const ModelState state = model->state(); state != ModelState::ready) {
        error = not_loaded(*model, state);
        return nullptr;
    }
    if (model->engine()->health().state == EngineState::failed) {
        error = dead_engine(*model);
        return nullptr;
    }
    return model;
}

}  // namespace nvllm::server
