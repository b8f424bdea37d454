// What memory is left, and counts of faults that rose since the last check.
#include "lib/server/models/model_supervisor.h"

#include <utility>

namespace nvllm::server {

void ModelSupervisor::check(const ModelSet& models, Clock::time_point now) {
    const bool is_short = !reserve_.refill() || !can_have_memory(limits_.spare_bytes);
    for (const auto& model : models.all()) {
        if (is_short) model->refuse_until(now + kOutOfMemoryPause);
        if (model->state() == ModelState::ready)
            check_model(model, known_[model->config().model.name]);
    }
}

void ModelSupervisor::check_model(const std::shared_ptr<HostedModel>& model, Known& known) {
    const EngineStats stats = model->engine()->stats();
    const FaultCounts& faults = stats.faults;
    if (std::exchange(known.weight_reloads, faults.weight_reloads) < faults.weight_reloads) {
        known.nonfinite_at_reload = faults.nonfinite_rows;
    }
    const bool is_past_help =
        faults.weight_reloads > 0 &&
        faults.nonfinite_rows - known.nonfinite_at_reload >= limits_.max_nonfinite_after_reload;
    if (is_past_help && !std::exchange(known.is_switched, true)) switch_to_backup_(model);
}

}  // namespace nvllm::server
