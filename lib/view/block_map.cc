// Drawing of block maps.
#include "lib/view/block_map.h"

#include <algorithm>
#include <map>

namespace nvllm::view {

char block_letter(BlockState state, int32_t references) {
    if (state == BlockState::free) return '.';
    if (state == BlockState::cached) return '-';
    if (references > 9) return '+';
    if (references > 1) return static_cast<char>('0' + references);
    return state == BlockState::published ? 'O' : 'o';
}

namespace {

// Of the blocks that are not free, so that the few that are in use are not overlooked.
char commonest(const GroupSnapshot& group, size_t begin, size_t end) {
    std::map<char, int> counts;
    for (size_t block = begin; block < end; ++block) {
        if (group.states[block] == BlockState::free) continue;
        ++counts[block_letter(group.states[block], group.references[block])];
    }
    if (counts.empty()) return '.';
    return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
        ->first;
}

}  // namespace

BlockMap block_map(const GroupSnapshot& group, int32_t columns, int32_t max_rows) {
    BlockMap map;
    const size_t total = group.states.size();
    const size_t letters = static_cast<size_t>(columns) * static_cast<size_t>(max_rows);
    const size_t step = letters == 0 ? 1 : std::max<size_t>(1, (total + letters - 1) / letters);
    map.blocks_per_letter = static_cast<int32_t>(step);
    for (size_t block = 0; block < total; block += step) {
        if (block / step % static_cast<size_t>(columns) == 0) map.rows.emplace_back();
        map.rows.back() += commonest(group, block, std::min(total, block + step));
    }
    return map;
}

}  // namespace nvllm::view
