// One screen of a running engine, as lines of plain ASCII.
#pragma once

#include <string>
#include <vector>

#include "lib/schedule/snapshot.h"

namespace nvllm::view {

// At most `rows` lines of at most `columns` bytes. `before`: an earlier snapshot of the same
// engine, for rates; null: none.
std::vector<std::string> watch_lines(const Snapshot& now, const Snapshot* before, int columns,
                                     int rows);

}  // namespace nvllm::view
