// What each API key came to, by its name, for scrapes.
#pragma once

#include "lib/base/metrics.h"
#include "lib/server/access/api_keys.h"

namespace nvllm::server {

class KeyMetrics {
  public:
    // Families nvllm_key_*, of which there are none while there are no keys. Both outlive it, and
    // no scrape comes after it.
    KeyMetrics(MetricsRegistry& registry, const KeyRing& keys);

  private:
    void refresh();

    const KeyRing& keys_;
    CounterFamily& requests_;
    CounterFamily& refused_;
    CounterFamily& tokens_;  // kind
};

}  // namespace nvllm::server
