// Ranges of the numbers, and the known methods.
#include "lib/schedule/speculation/speculation_config.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/schedule/speculation/proposers.h"

namespace nvllm {
namespace {

constexpr int32_t kMostLookup = 64;
constexpr int32_t kMostCachedTokens = 1 << 28;

void require_in(const char* key, int32_t value, int32_t least, int32_t most) {
    if (value >= least && value <= most) return;
    throw Error(ErrorKind::bad_config,
                fmt::format("{} is {}; it must be from {} to {}", key, value, least, most));
}

}  // namespace

void SpeculationConfig::check() const {
    if (!enabled() && !by_worker) return;
    if (!by_worker) find_draft_method(method);
    require_in("num_speculative_tokens", num_speculative_tokens, 1, kMostDrafts);
    require_in("tree_width", tree_width, 1,
               std::max(1, kMostTreeRows / std::max(1, num_speculative_tokens)));
    require_in("tree_tokens", tree_tokens, 0, kMostDrafts);
    require_in("prompt_lookup_max", prompt_lookup_max, 1, kMostLookup);
    require_in("prompt_lookup_min", prompt_lookup_min, 1, prompt_lookup_max);
    require_in("suffix_cached_tokens", suffix_cached_tokens, 1024, kMostCachedTokens);
    // Not a number is refused as well.
    if (!(synthetic_acceptance >= 0.0 && synthetic_acceptance <= 1.0)) {
        throw Error(ErrorKind::bad_config,
                    fmt::format("synthetic_acceptance is {}; it must be from 0 to 1",
                                synthetic_acceptance));
    }
}

}  // namespace nvllm
