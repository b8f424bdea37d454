// Snapshots as JSON: written by the engine, read by nvllm-inspect.
#pragma once

#include <string>
#include <string_view>

#include "lib/schedule/snapshot.h"

namespace nvllm {

inline constexpr const char* kSnapshotSchema = "nvllm.snapshot/1";

// One object on one line, without its end.
std::string snapshot_to_json(const Snapshot& snapshot);

// Believes nothing: every field must be there, of its type and in its range, nothing else may be,
// and counts, tables and references must agree with each other. Throws bad_data with `source_name`,
// the field and what is wrong with it.
Snapshot snapshot_from_json(std::string_view text, std::string_view source_name);

}  // namespace nvllm
