// The metrics of a model's adapters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/server/operations/metric_families.h"

namespace nvllm::server {

// Shown while a scrape is written, by one thread at a time.
class AdapterMetrics {
  public:
    // `vllm` is null when vLLM's names are off. Both outlive it.
    AdapterMetrics(std::string model, ModelFamilies& families, VllmFamilies* vllm)
        : model_(std::move(model)), families_(families), vllm_(vllm) {}

    // Before, nothing is shown.
    void enable(int32_t max_loras);
    void show(const AdapterStats& stats);
    // The engine is gone: what is of now is no longer shown.
    void forget();

  private:
    void show_names(const AdapterStats& stats);
    void forget_names();

    const std::string model_;
    ModelFamilies& families_;
    VllmFamilies* vllm_;
    std::string max_loras_;           // empty: there are none
    std::vector<std::string> names_;  // labels of lora_requests_info that were shown last
};

}  // namespace nvllm::server
