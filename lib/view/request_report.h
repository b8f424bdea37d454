// The sequences of a snapshot, and the block tables of one of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/schedule/snapshot.h"

namespace nvllm::view {

// "5 blocks short", "behind 7", "no slot"; empty when it does not wait.
std::string describe_wait(const SequenceSnapshot& sequence);
// Cells of the table of requests, and what stands above them.
std::vector<std::string> request_cells(const SequenceSnapshot& sequence, double now_s);
std::vector<std::string> request_headings();
inline constexpr const char* kRequestSides = ">><>>>>>>><";

std::string requests_text(const Snapshot& snapshot);
// "nvllm-inspect.requests/1".
nlohmann::ordered_json requests_json(const Snapshot& snapshot);

// Logical to physical, entry by entry. Throws not_found when no sequence of the request lives.
std::string table_text(const Snapshot& snapshot, RequestId request);
// "nvllm-inspect.table/1".
nlohmann::ordered_json table_json(const Snapshot& snapshot, RequestId request);

}  // namespace nvllm::view
