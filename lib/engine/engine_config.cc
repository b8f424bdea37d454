// Defaults of an engine's configuration that depend on the model and the device.
#include "lib/engine/engine_config.h"

#include <algorithm>

#include "lib/checkpoint/model_config.h"

namespace nvllm {
namespace {

constexpr int64_t kMaxDefaultTokens = 1'000'000;

int32_t default_tokens(const ModelConfig& model, const EngineConfig& config,
                       const StepDefaults& defaults) {
    if (!model.encoder) return defaults.batched_tokens;
    const int64_t longest = config.memory.max_model_len.value_or(
        static_cast<int32_t>(std::min(model.max_positions, kMaxDefaultTokens)));
    return std::max(defaults.batched_tokens, static_cast<int32_t>(longest));
}

}  // namespace

EngineConfig fitted_to(const ModelConfig& model, bool on_device, EngineConfig config) {
    const StepDefaults& defaults = on_device ? kDeviceSteps : kCpuSteps;
    SchedulingOptions& scheduling = config.scheduling;
    if (!scheduling.max_num_batched_tokens) {
        scheduling.max_num_batched_tokens = default_tokens(model, config, defaults);
    }
    if (!scheduling.mixed_prefill_tokens) {
        scheduling.mixed_prefill_tokens =
            scheduling.answers_are_streamed ? defaults.mixed_prefill_tokens : 0;
    }
    scheduling.scheduler.max_num_batched_tokens = *scheduling.max_num_batched_tokens;
    scheduling.scheduler.mixed_prefill_tokens = *scheduling.mixed_prefill_tokens;
    if (model.encoder) {
        scheduling.scheduler.enable_chunked_prefill = false;
        config.kv_cache.cache.enable_prefix_caching = false;
    }
    return config;
}

}  // namespace nvllm
