// The cache of a snapshot: which blocks are what, who has them, and how well they are used.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/schedule/snapshot.h"

namespace nvllm::view {

// `every_block`: a letter for each, however many there are.
std::string cache_text(const Snapshot& snapshot, bool every_block);
// "nvllm-inspect.cache/1".
nlohmann::ordered_json cache_json(const Snapshot& snapshot);
std::string cache_svg(const Snapshot& snapshot);

}  // namespace nvllm::view
