// The adapters of a snapshot: where each is, and for whom.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/schedule/snapshot.h"

namespace nvllm::view {

std::string adapters_text(const Snapshot& snapshot);
// "nvllm-inspect.adapters/1".
nlohmann::ordered_json adapters_json(const Snapshot& snapshot);

}  // namespace nvllm::view
