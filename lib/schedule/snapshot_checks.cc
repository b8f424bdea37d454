// Checks of a snapshot that came from outside.
#include "lib/schedule/snapshot_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "kernels/error.h"

namespace nvllm {
namespace {

void require(bool holds, const std::string& path, const char* what) {
    if (!holds) throw Error(ErrorKind::bad_data, path + " " + what);
}

void check_group(const GroupSnapshot& group, const std::string& path) {
    const BlockCounts& counts = group.stats.blocks;
    const auto count = [&](auto... states) {
        return ((std::ranges::count(group.states, states)) + ...);
    };
    require(!group.states.empty(), path + ".states", "is empty");
    require(std::ssize(group.states) == counts.total, path + ".states",
            "is not as long as figures.blocks.total says");
    require(group.references.size() == group.states.size(), path + ".references",
            "is not as long as states");
    require(count(BlockState::free) == counts.free, path + ".figures.blocks.free",
            "is not the number of free blocks");
    require(count(BlockState::cached) == counts.cached, path + ".figures.blocks.cached",
            "is not the number of cached blocks");
    require(count(BlockState::used, BlockState::published) == counts.used,
            path + ".figures.blocks.used", "is not the number of used blocks");
    for (size_t block = 0; block < group.states.size(); ++block) {
        const bool used = group.states[block] >= BlockState::used;
        require((group.references[block] > 0) == used,
                fmt::format("{}.references[{}]", path, block), "disagrees with the block's state");
    }
}

// Positions stay numbers that can be shown.
void check_extent(const TableSnapshot& table, const Snapshot& snapshot, const std::string& path) {
    const auto entries = static_cast<int64_t>(table.blocks.size()) + table.num_given_back;
    require(entries * snapshot.config.block_size <= INT32_MAX, path + ".num_given_back",
            "makes the table longer than any context");
}

// Occurrences in tables, by block.
void count_table(const TableSnapshot& table, const GroupSnapshot& group, const std::string& path,
                 std::vector<int32_t>& occurrences) {
    for (size_t i = 0; i < table.blocks.size(); ++i) {
        const auto block = static_cast<size_t>(table.blocks[i]);
        const auto entry = [&] { return fmt::format("{}.blocks[{}]", path, i); };
        if (block >= group.states.size()) require(false, entry(), "is not a block of its group");
        if (++occurrences[block] > group.references[block]) {
            require(false, entry(), "is a block with fewer references than occurrences");
        }
    }
}

void check_sequence(const SequenceSnapshot& sequence, const Snapshot& snapshot,
                    const std::string& path) {
    require(sequence.tables.size() == snapshot.groups.size(), path + ".tables",
            "has not one table for each group");
    require(sequence.num_prompt_tokens <= sequence.num_tokens, path + ".num_prompt_tokens",
            "is more than num_tokens");
    // Plans in flight may compute tokens that earlier ones choose.
    const int64_t expected = std::max(0, snapshot.config.pipeline_depth - 1);
    require(int64_t{sequence.num_computed} + sequence.num_in_flight <=
                int64_t{sequence.num_tokens} + expected,
            path + ".num_computed", "is more than there are tokens");
    require((sequence.state == SequenceState::awaiting_blocks) == sequence.lease_end_s.has_value(),
            path + ".lease_end_s", "disagrees with the state");
    require(sequence.state != SequenceState::finished, path + ".state",
            "is finished; only living sequences are in a snapshot");
}

void check_run(const RunSnapshot& run, size_t place, const Snapshot& snapshot,
               const std::string& path) {
    require(!run.parent || static_cast<size_t>(*run.parent) < place, path + ".parent",
            "does not stand before its child");
    require(run.blocks.size() == snapshot.groups.size(), path + ".blocks",
            "has not one list for each group");
    require(run.first_tokens.size() <= kRunTokensShown, path + ".first_tokens", "is too long");
    require(run.last_use <= snapshot.tick, path + ".last_use", "is after the snapshot's tick");
    for (size_t group = 0; group < run.blocks.size(); ++group) {
        for (const int32_t block : run.blocks[group]) {
            require(static_cast<size_t>(block) < snapshot.groups[group].states.size(),
                    fmt::format("{}.blocks[{}]", path, group), "names a block that does not exist");
        }
    }
}

void check_sequences(const Snapshot& snapshot) {
    std::vector<std::vector<int32_t>> occurrences;
    for (const GroupSnapshot& group : snapshot.groups) {
        occurrences.emplace_back(group.states.size(), 0);
    }
    std::set<SequenceId> ids;
    for (size_t i = 0; i < snapshot.sequences.size(); ++i) {
        const SequenceSnapshot& sequence = snapshot.sequences[i];
        const std::string path = fmt::format("sequences[{}]", i);
        check_sequence(sequence, snapshot, path);
        require(ids.insert(sequence.id).second, path + ".id", "comes twice");
        for (size_t group = 0; group < sequence.tables.size(); ++group) {
            check_extent(sequence.tables[group], snapshot,
                         fmt::format("{}.tables[{}]", path, group));
            count_table(sequence.tables[group], snapshot.groups[group],
                        fmt::format("{}.tables[{}]", path, group), occurrences[group]);
        }
    }
}

}  // namespace

void check_snapshot(const Snapshot& snapshot) {
    require(snapshot.config.block_size >= 1, "config.block_size", "is below 1");
    require(!snapshot.groups.empty() && snapshot.groups.size() <= 64, "groups",
            "has not 1 to 64 elements");
    for (size_t i = 0; i < snapshot.groups.size(); ++i) {
        check_group(snapshot.groups[i], fmt::format("groups[{}]", i));
    }
    require(snapshot.has_tree || snapshot.runs.empty(), "runs", "is not empty without a tree");
    for (size_t i = 0; i < snapshot.runs.size(); ++i) {
        check_run(snapshot.runs[i], i, snapshot, fmt::format("runs[{}]", i));
    }
    check_sequences(snapshot);
}

}  // namespace nvllm
