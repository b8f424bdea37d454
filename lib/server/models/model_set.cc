// The list of models.
#include "lib/server/models/model_set.h"

#include <algorithm>

namespace nvllm::server {
namespace {

bool has_name(const HostedModel& model, std::string_view name) {
    return std::ranges::find(model.names(), name) != model.names().end();
}

// False until the model is loaded.
bool has_adapter(const HostedModel& model, std::string_view name) {
    const Engine* const engine = model.engine();
    return engine != nullptr && engine->adapters().is_enabled() &&
           engine->adapters().find(std::string(name)).ok();
}

}  // namespace

bool ModelSet::add(std::shared_ptr<HostedModel> model) {
    const std::lock_guard lock(mutex_);
    for (const auto& other : models_) {
        for (const std::string& name : model->names()) {
            if (has_name(*other, name)) return false;
        }
    }
    models_.push_back(std::move(model));
    return true;
}

std::shared_ptr<HostedModel> ModelSet::find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    if (name.empty()) return models_.empty() ? nullptr : models_.front();
    for (const auto& model : models_) {
        if (has_name(*model, name)) return model;
    }
    for (const auto& model : models_) {
        if (has_adapter(*model, name)) return model;
    }
    return nullptr;
}

std::vector<std::shared_ptr<HostedModel>> ModelSet::all() const {
    const std::lock_guard lock(mutex_);
    return models_;
}

std::vector<std::shared_ptr<HostedModel>> ModelSet::all_active() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<HostedModel>> active = models_;
    active.insert(active.end(), removed_.begin(), removed_.end());
    return active;
}

bool ModelSet::remove(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(models_, [&](const auto& model) { return has_name(*model, name); });
    if (found == models_.end()) return false;
    (*found)->begin_unloading();
    removed_.push_back(std::move(*found));
    models_.erase(found);
    return true;
}

bool ModelSet::has_unused() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(removed_, [](const auto& model) { return model.use_count() == 1; });
}

void ModelSet::stop_all() {
    const std::lock_guard lock(mutex_);
    for (const auto* list : {&models_, &removed_}) {
        for (const auto& model : *list) model->stop();
    }
}

void ModelSet::end_unused() {
    std::vector<std::shared_ptr<HostedModel>> unused;
    const std::lock_guard lock(mutex_);
    for (auto& model : removed_) {
        if (model.use_count() == 1) unused.push_back(std::move(model));
    }
    std::erase(removed_, nullptr);
}

}  // namespace nvllm::server
