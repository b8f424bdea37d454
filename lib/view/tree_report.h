// The prefix tree of a snapshot: which beginnings the cache knows, and what became of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/schedule/snapshot.h"

namespace nvllm::view {

// Throws bad_data when the snapshot was taken without its tree.
std::string tree_text(const Snapshot& snapshot);
// "nvllm-inspect.tree/1".
nlohmann::ordered_json tree_json(const Snapshot& snapshot);
// Runs from left to right by their tokens, stacked by their leaves.
std::string tree_svg(const Snapshot& snapshot);

}  // namespace nvllm::view
