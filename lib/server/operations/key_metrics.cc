// Counts of keys into their families.
#include "lib/server/operations/key_metrics.h"

#include <map>

namespace nvllm::server {
namespace {

struct Sum {
    int64_t requests = 0, refused = 0, prompt_tokens = 0, generated_tokens = 0;
};

// Several keys may have the same name: one person, two machines.
std::map<std::string, Sum> sums_by_name(const KeyRing& keys) {
    std::map<std::string, Sum> sums;
    for (const ApiKey& key : keys.all()) {
        const KeyCounts& counts = key.use->counts();
        Sum& sum = sums[key.name];
        sum.requests += counts.requests;
        sum.refused += counts.refused;
        sum.prompt_tokens += counts.prompt_tokens;
        sum.generated_tokens += counts.generated_tokens;
    }
    return sums;
}

}  // namespace

KeyMetrics::KeyMetrics(MetricsRegistry& registry, const KeyRing& keys)
    : keys_(keys),
      requests_(registry.counter("nvllm_key_requests_total",
                                 "Requests of an API key that were let in.", {"key"})),
      refused_(registry.counter("nvllm_key_requests_refused_total",
                                "Requests of an API key that one of its limits refused.", {"key"})),
      tokens_(registry.counter("nvllm_key_tokens_total",
                               "Tokens of an API key's requests that have ended.", {"key", "kind"},
                               2 * MetricsRegistry::kMaxChildren)) {
    registry.on_scrape([this] { refresh(); });
}

void KeyMetrics::refresh() {
    const auto raise = [](Counter& counter, int64_t value) {
        counter.raise_to(static_cast<uint64_t>(value));
    };
    for (const auto& [name, sum] : sums_by_name(keys_)) {
        raise(requests_.with({name}), sum.requests);
        raise(refused_.with({name}), sum.refused);
        raise(tokens_.with({name, "prompt"}), sum.prompt_tokens);
        raise(tokens_.with({name, "generated"}), sum.generated_tokens);
    }
}

}  // namespace nvllm::server
