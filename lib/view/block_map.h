// Blocks as letters, for terminals.
#pragma once

#include <string>
#include <vector>

#include "lib/schedule/snapshot.h"

namespace nvllm::view {

// One letter a block: '.' free, '-' cached, 'o' used, 'O' used and findable, '2' to '9' and '+'
// used by so many.
char block_letter(BlockState state, int32_t references);

struct BlockMap {
    std::vector<std::string> rows;
    int32_t blocks_per_letter = 1;  // above 1, '.' when all are free, else what most others are
};

// At most `max_rows` rows of `columns` letters; 0: as many rows as it takes.
BlockMap block_map(const GroupSnapshot& group, int32_t columns, int32_t max_rows);

inline constexpr const char* kBlockLegend =
    ". free   - cached   o used   O used and findable   2..9+ shared by so many";

}  // namespace nvllm::view
