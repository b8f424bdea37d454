// Block tables entry by entry.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/view/request_report.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

using Owners = std::vector<std::vector<std::vector<SequenceId>>>;  // by group and block

Owners owners_of(const Snapshot& snapshot) {
    Owners owners;
    for (size_t group = 0; group < snapshot.groups.size(); ++group) {
        owners.push_back(block_owners(snapshot, static_cast<int32_t>(group)));
    }
    return owners;
}

std::vector<const SequenceSnapshot*> sequences_of(const Snapshot& snapshot, RequestId request) {
    std::vector<const SequenceSnapshot*> found;
    for (const SequenceSnapshot& sequence : snapshot.sequences) {
        if (sequence.request == request) found.push_back(&sequence);
    }
    if (!found.empty()) return found;
    throw Error(ErrorKind::not_found,
                fmt::format("request {} has no living sequence in this snapshot; 'requests' lists "
                            "those that have",
                            request));
}

struct Entry {
    int32_t index = 0;
    int32_t first = 0;  // positions
    int32_t last = 0;
    int32_t block = 0;
    bool published = false;
    std::vector<SequenceId> others;
};

std::vector<Entry> entries_of(const Snapshot& snapshot, const SequenceSnapshot& sequence,
                              size_t group, const Owners& owners) {
    const TableSnapshot& table = sequence.tables[group];
    std::vector<Entry> entries;
    for (size_t i = 0; i < table.blocks.size(); ++i) {
        Entry entry;
        entry.index = table.num_given_back + static_cast<int32_t>(i);
        entry.first = entry.index * snapshot.config.block_size;
        entry.last = entry.first + snapshot.config.block_size - 1;
        entry.block = table.blocks[i];
        const auto block = static_cast<size_t>(entry.block);
        entry.published = snapshot.groups[group].states[block] == BlockState::published;
        entry.others = owners[group][block];
        std::erase(entry.others, sequence.id);
        entries.push_back(std::move(entry));
    }
    return entries;
}

std::string describe(const Entry& entry) {
    if (entry.others.empty()) return "private";
    std::vector<SequenceId> shown = entry.others;
    shown.resize(std::min<size_t>(shown.size(), 6));
    return fmt::format("shared with {}{}", fmt::join(shown, ", "),
                       shown.size() < entry.others.size() ? " ..." : "");
}

}  // namespace

std::string table_text(const Snapshot& snapshot, RequestId request) {
    TextSheet sheet;
    const Owners owners = owners_of(snapshot);
    for (const SequenceSnapshot* sequence : sequences_of(snapshot, request)) {
        sheet.gap();
        sheet.row(
            "sequence",
            fmt::format("{} (continuation {} of request {}), {}{}{}", sequence->id, sequence->index,
                        request, sequence_state_name(sequence->state),
                        describe_wait(*sequence).empty() ? "" : ": ", describe_wait(*sequence)));
        sheet.row("tokens", fmt::format("{} of prompt, {} of answer, {} computed, {} blocks "
                                        "findable by others",
                                        sequence->num_prompt_tokens,
                                        sequence->num_tokens - sequence->num_prompt_tokens,
                                        sequence->num_computed, sequence->num_published_blocks));
        for (size_t group = 0; group < sequence->tables.size(); ++group) {
            std::vector<std::vector<std::string>> rows = {
                {"entry", "positions", "block", "found by others", "owners"}};
            for (const Entry& entry : entries_of(snapshot, *sequence, group, owners)) {
                rows.push_back(
                    {std::to_string(entry.index), fmt::format("{}-{}", entry.first, entry.last),
                     std::to_string(entry.block), entry.published ? "yes" : "no", describe(entry)});
            }
            const int32_t given_back = sequence->tables[group].num_given_back;
            sheet.line(fmt::format(
                "Group {}{}{}:", group, rows.size() == 1 ? ", no blocks" : "",
                given_back > 0 ? fmt::format(", {} entries left the window", given_back) : ""));
            if (rows.size() > 1) sheet.table(rows, ">>><<");
        }
    }
    return sheet.text();
}

nlohmann::ordered_json table_json(const Snapshot& snapshot, RequestId request) {
    using Json = nlohmann::ordered_json;
    const Owners owners = owners_of(snapshot);
    Json sequences = Json::array();
    for (const SequenceSnapshot* sequence : sequences_of(snapshot, request)) {
        Json groups = Json::array();
        for (size_t group = 0; group < sequence->tables.size(); ++group) {
            Json entries = Json::array();
            for (const Entry& entry : entries_of(snapshot, *sequence, group, owners)) {
                entries.push_back({{"entry", entry.index},
                                   {"first_position", entry.first},
                                   {"block", entry.block},
                                   {"published", entry.published},
                                   {"shared_with", entry.others}});
            }
            groups.push_back({{"window", snapshot.groups[group].window},
                              {"given_back", sequence->tables[group].num_given_back},
                              {"entries", entries}});
        }
        sequences.push_back({{"sequence", sequence->id},
                             {"index", sequence->index},
                             {"state", sequence_state_name(sequence->state)},
                             {"groups", groups}});
    }
    return {{"schema", "nvllm-inspect.table/1"},
            {"request", request},
            {"block_size", snapshot.config.block_size},
            {"sequences", sequences}};
}

}  // namespace nvllm::view
