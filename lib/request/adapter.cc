// Names of tiers.
#include "lib/request/adapter.h"

#include <array>

namespace nvllm {

const char* adapter_tier_name(AdapterTier tier) {
    constexpr std::array kNames = {"cold", "loading", "warm", "placing", "hot", "failed"};
    return kNames.at(static_cast<size_t>(tier));
}

}  // namespace nvllm
