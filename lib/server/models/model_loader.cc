// Loads of models, and what is begun when one has to go.
#include "lib/server/models/model_loader.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "kernels/host/start_thread.h"
#include "lib/base/log.h"
#include "lib/engine/model_lookup.h"
#include "lib/server/http/memory_reserve.h"

namespace nvllm::server {
namespace {

void log_loaded(const HostedModel& model) {
    const Engine& engine = *model.engine();
    log_info(fmt::format("{}: {} in {:.0f} ms", model.name(), engine.memory_plan().summary(),
                         engine.start_timings().total_ms));
    if (const std::string& found = model.output().summary; !found.empty()) log_info(found);
    for (const std::string& note : engine.model_notes()) log_info(note);
    for (const std::string& note : engine.memory_plan().notices) log_info(note);
}

bool has_ended(const std::future<void>& load) {
    return load.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The options of `other` with another model; two engines cannot share a socket.
EngineConfig with_model(EngineConfig other, const std::string& path) {
    other.model.name = path;
    other.inspection.socket.clear();
    return other;
}

}  // namespace

ModelLoader::ModelLoader(const ModelLimits& limits, std::string backup_model, ModelSet& models,
                         ServerMetrics& metrics)
    : limits_(limits),
      backup_model_(std::move(backup_model)),
      models_(models),
      metrics_(metrics),
      broker_(models) {}

ModelLoader::~ModelLoader() { end(); }

void ModelLoader::end() {
    if (first_.valid()) first_.wait();
    const auto loads = [this] {
        const std::lock_guard lock(mutex_);
        return std::exchange(later_, {});
    }();
    for (const std::future<void>& load : loads) load.wait();
    models_.stop_all();
}

std::shared_ptr<HostedModel> ModelLoader::host(std::vector<std::string> names,
                                               EngineConfig config) const {
    return std::make_shared<HostedModel>(std::move(names), std::move(config), limits_, metrics_);
}

void ModelLoader::add(std::vector<std::string> names, EngineConfig config) {
    const auto model = host(std::move(names), std::move(config));
    if (models_.add(model)) return;
    throw Error(ErrorKind::usage,
                fmt::format("--model: two models are called '{}'", model->name()));
}

void ModelLoader::begin(std::function<void(bool is_loaded)> done) {
    is_loading_ = true;
    first_ = start_async([this, done = std::move(done)] { load_first(done); });
}

void ModelLoader::wait() { first_.get(); }

void ModelLoader::load_first(const std::function<void(bool is_loaded)>& done) {
    try {
        for (const auto& model : models_.all()) load_now(*model);
    } catch (...) {
        is_loading_ = false;
        done(false);
        throw;
    }
    is_loading_ = false;
    done(true);
}

void ModelLoader::load_now(HostedModel& model) {
    {
        const WithoutReserve without;
        model.load(broker_.fit(model.config()));
    }
    broker_.models_changed();
    log_loaded(model);
}

// False when its name is taken.
bool ModelLoader::load_later(const std::shared_ptr<HostedModel>& model) {
    if (!models_.add(model)) return false;
    const std::lock_guard lock(mutex_);
    std::erase_if(later_, has_ended);
    try {
        later_.push_back(start_async([this, model = model]() mutable {
            try {
                load_now(*model);
            } catch (const std::exception& error) {
                log_error(fmt::format("{}: {}", model->name(), error.what()));
            }
            model.reset();  // the future keeps what it captured
        }));
    } catch (const Error& error) {
        model->fail(error.what());
        log_error(fmt::format("{}: {}", model->name(), error.what()));
    }
    return true;
}

std::optional<ApiError> ModelLoader::load(const std::string& name, const std::string& path) {
    if (const auto missing = missing_model(path)) {
        ApiError error = api_error(*missing);
        error.param = "path";
        if (error.status == 404) error.code = "model_not_found";
        return error;
    }
    const auto others = models_.all();
    EngineConfig options;
    if (!others.empty()) options = others.front()->config();
    if (load_later(host({name}, with_model(options, path)))) return std::nullopt;
    return ApiError{.message = fmt::format("a model '{}' is there already", name),
                    .code = "model_exists",
                    .param = "name"};
}

std::optional<ApiError> ModelLoader::unload(const std::string& name) {
    if (models_.remove(name)) return std::nullopt;
    return ApiError{.status = 404,
                    .message = fmt::format("there is no model '{}'", name),
                    .code = "model_not_found",
                    .param = "name"};
}

void ModelLoader::replace(const std::shared_ptr<HostedModel>& model) {
    const std::string fault =
        fmt::format("{}: goes on computing what are no numbers", model->name());
    if (backup_model_.empty()) {
        return log_error(fmt::format("{}, and there is no --backup-model", fault));
    }
    log_error(fmt::format("{}; {} takes its place", fault, backup_model_));
    model->metrics().recovered(RecoveryLevel::process);
    models_.remove(model->name());
    load_later(host(model->names(), with_model(model->config(), backup_model_)));
}

void ModelLoader::end_unused() {
    models_.end_unused();
    broker_.models_changed();
}

}  // namespace nvllm::server
