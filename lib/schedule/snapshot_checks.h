// What the fields of a snapshot must say together.
#pragma once

#include "lib/schedule/snapshot.h"

namespace nvllm {

// Throws bad_data that names the field: numbers out of their ranges, counts that do not add up,
// tables with blocks that do not exist or are not used, more occurrences than references.
void check_snapshot(const Snapshot& snapshot);

}  // namespace nvllm
