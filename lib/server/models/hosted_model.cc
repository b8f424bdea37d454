// From a configuration to an engine that serves.
#include "lib/server/models/hosted_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm::server {

namespace {

// Normalizers that shorten a text do so by less than this.
constexpr size_t kMaxShortening = 4;

size_t max_bytes_of_a_token(const Tokenizer& tokenizer) {
    size_t longest = 1;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        longest = std::max(longest, tokenizer.token_bytes(id).size());
    }
    return longest * kMaxShortening;
}

// A request by that name would get the model alone.
void check_adapter_names(const Engine& engine, const std::vector<std::string>& names) {
    for (const AdapterInfo& adapter : engine.adapters().list()) {
        if (std::ranges::find(names, adapter.ref.name) == names.end()) continue;
        throw Error(ErrorKind::usage,
                    fmt::format("adapter {} is called like its model: give one of them another "
                                "name (--served-model-name)",
                                adapter.ref.name));
    }
}

}  // namespace

const char* model_state_name(ModelState state) {
    switch (state) {
        case ModelState::loading:
            return "loading";
        case ModelState::ready:
            return "ready";
        case ModelState::failed:
            return "failed";
        case ModelState::unloading:
            break;
    }
    return "unloading";
}

HostedModel::HostedModel(std::vector<std::string> names, EngineConfig config,
                         const ModelLimits& limits, ServerMetrics& metrics)
    : names_(std::move(names)),
      config_(std::move(config)),
      limits_(limits),
      server_metrics_(metrics),
      metrics_(metrics.model(names_.front())),
      timeline_(names_.front()) {}

HostedModel::~HostedModel() { metrics_.set_engine({}); }

void HostedModel::fail(const std::string& why) {
    {
        const std::lock_guard lock(mutex_);
        failure_ = why;
    }
    state_ = ModelState::failed;
}

void HostedModel::load(const EngineConfig& fitted) {
    try {
        engine_ = std::make_unique<Engine>(fitted);
        check_adapter_names(*engine_, names_);
    } catch (const std::exception& error) {
        fail(error.what());
        throw;
    }
    engine_->set_step_listener([this](const StepRecord& step) {
        metrics_.observe_step(step);
        timeline_.observe_step(step);
    });
    metrics_.set_cache_config(config_, engine_->memory_plan());
    metrics_.set_engine([engine = engine_.get()] { return engine->stats(); });
    output_ =
        find_model_output(limits_.formats, engine_->input_processor(), engine_->tokenizer().get());
    default_sampling_ = engine_->input_processor().default_sampling();
    if (const auto& tokenizer = engine_->tokenizer()) {
        longest_token_bytes_ = max_bytes_of_a_token(*tokenizer);
    }
    const int32_t replicas = engine_->memory_plan().num_replicas;
    const auto pool_tokens = static_cast<double>(engine_->memory_plan().kv_tokens * replicas);
    admission_ = std::make_shared<AdmissionControl>(AdmissionLimits{
        .max_sequences = config_.scheduling.scheduler.max_num_seqs * replicas +
                         limits_.admission.max_queued_requests,
        .max_prompt_tokens =
            static_cast<int64_t>((1.0 + limits_.admission.max_queued_pools) * pool_tokens),
        .overload_status = limits_.admission.overload_status});
    loaded_engine_ = engine_.get();
    ModelState expected = ModelState::loading;
    state_.compare_exchange_strong(expected, ModelState::ready);
}

void HostedModel::stop() {
    if (Engine* engine = loaded_engine_) engine->stop();
}

bool HostedModel::is_short_of_memory() const {
    const auto now = std::chrono::steady_clock::now();
    if (now < refused_until_.load()) return true;
    const Engine* engine = loaded_engine_;
    if (engine == nullptr) return false;
    const FaultCounts faults = engine->stats().faults;
    return faults.out_of_memory > 0 && now < faults.last_out_of_memory + kOutOfMemoryPause;
}

std::string HostedModel::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

}  // namespace nvllm::server
