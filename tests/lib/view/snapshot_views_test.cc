// Views of snapshots: tables and figures that are those of the cache they were taken from.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/cache/cache_inspection.h"
#include "lib/schedule/snapshot_json.h"
#include "lib/view/block_map.h"
#include "lib/view/cache_report.h"
#include "lib/view/request_report.h"
#include "lib/view/snapshot_source.h"
#include "lib/view/tree_report.h"
#include "lib/view/watch_screen.h"
#include "tests/lib/schedule/simulation.h"

using namespace nvllm;
using namespace nvllm::view;

namespace {

struct Busy {
    explicit Busy(unsigned seed, const CacheGroupConfig& second = {24, 7})
        : random(seed),
          simulation(small_config(),
                     {.block_size = 4, .groups = {{40, 0}, second}, .hash_key = HashKey{1, 2}}) {}

    Snapshot after(int actions) {
        for (int i = 0; i < actions; ++i) {
            if (random() % 3 == 0) {
                Request request = make_request(
                    next++,
                    counting_tokens(1 + 100 * static_cast<int>(random() % 3), 1 + random() % 40),
                    1 + static_cast<int>(random() % 30));
                request.sampling.n = random() % 5 == 0 ? 3 : 1;
                simulation.add(request);
            } else {
                simulation.step();
            }
        }
        return simulation.scheduler.snapshot(SnapshotDetail::full, simulation.now_s);
    }

    std::mt19937 random;
    Simulation simulation;
    RequestId next = 1;
};

Snapshot of_blocks(const std::string& letters) {
    Snapshot snapshot;
    GroupSnapshot& group = snapshot.groups.emplace_back();
    for (const char letter : letters) {
        const bool used = letter >= '1' && letter <= '9';
        group.states.push_back(used            ? BlockState::published
                               : letter == '-' ? BlockState::cached
                                               : BlockState::free);
        group.references.push_back(used ? letter - '0' : 0);
    }
    return snapshot;
}

}  // namespace

TEST_CASE("50 random states: printed tables hold the worker's blocks, in both groups") {
    int num_states = 0;
    int num_entries = 0;
    for (unsigned seed = 1; seed <= 10; ++seed) {
        Busy busy(seed);
        for (int state = 0; state < 5; ++state, ++num_states) {
            const Snapshot snapshot = busy.after(12);
            for (const SequenceSnapshot& row : snapshot.sequences) {
                const auto json = table_json(snapshot, row.request);
                const std::string text = table_text(snapshot, row.request);
                for (const auto& sequence : json["sequences"]) {
                    const SequenceId id = sequence["sequence"];
                    for (int32_t group = 0; group < 2; ++group) {
                        for (const auto& entry :
                             sequence["groups"][static_cast<size_t>(group)]["entries"]) {
                            const BlockId block = entry["block"];
                            const auto& addressed =
                                busy.simulation.worker.table(id, static_cast<size_t>(group));
                            CHECK(addressed.at(entry["entry"].get<size_t>()) == block);
                            const auto owners =
                                block_owners(busy.simulation.cache.parts().tables, group, block);
                            CHECK(std::ranges::find(owners, id) != owners.end());
                            CHECK(entry["shared_with"].size() + 1 == owners.size());
                            CHECK(entry["first_position"] == entry["entry"].get<int32_t>() * 4);
                            CHECK(entry["published"].get<bool>() ==
                                  busy.simulation.cache.parts().index.contains(group, block));
                            CHECK(text.find(" " + std::to_string(block) + " ") !=
                                  std::string::npos);
                            ++num_entries;
                        }
                    }
                }
            }
        }
    }
    CHECK(num_states == 50);
    CHECK(num_entries > 500);
}

TEST_CASE("what the cache view says adds up") {
    Busy busy(4);
    const Snapshot snapshot = busy.after(70);
    const auto json = cache_json(snapshot);
    CHECK(json["schema"] == "nvllm-inspect.cache/1");
    for (const auto& group : json["groups"]) {
        CHECK(group["used"].get<int>() + group["cached"].get<int>() + group["free"].get<int>() ==
              group["total"].get<int>());
        int64_t references = 0;
        for (const auto& block : group["blocks"]) {
            references += block["references"].get<int64_t>();
            CHECK(block["references"].get<size_t>() == block["owners"].size());
        }
        CHECK(references == group["references"].get<int64_t>());
        CHECK(group["blocks"].size() + group["free"].get<size_t>() == group["total"].get<size_t>());
    }
    CHECK(cache_text(snapshot, true).find("Group 1: a window of 7") != std::string::npos);
    CHECK(cache_svg(snapshot).find("prefers-color-scheme:dark") != std::string::npos);
    CHECK(tree_svg(snapshot).find("</svg>") != std::string::npos);
    CHECK(tree_json(snapshot)["runs"].size() == snapshot.runs.size());
}

TEST_CASE("a tree says where prompts can go on, of models with states") {
    Busy busy(4, {.num_blocks = 30, .kind = CacheGroupKind::state});
    const Snapshot snapshot = busy.after(70);
    const auto json = tree_json(snapshot);
    size_t num_states = 0;
    for (const auto& run : json["runs"]) num_states += run["states"].get<size_t>();
    CHECK(num_states > 0);
    CHECK(tree_text(snapshot).find("soon  states") != std::string::npos);
    CHECK(cache_text(snapshot, false).find("Group 1: states") != std::string::npos);
    CHECK(tree_text(Busy(4).after(70)).find("states") == std::string::npos);
}

TEST_CASE("a tree is asked of a snapshot that has one") {
    Busy busy(4);
    busy.after(10);
    const Snapshot bare = busy.simulation.scheduler.snapshot(SnapshotDetail::without_tree, 0.0);
    CHECK_THROWS_AS(tree_text(bare), Error);
}

TEST_CASE("a request that is not there") {
    Busy busy(4);
    const Snapshot snapshot = busy.after(10);
    CHECK_THROWS_AS(table_text(snapshot, 4711), Error);
}

TEST_CASE("block maps") {
    const Snapshot snapshot = of_blocks("1-..2---");
    CHECK(block_map(snapshot.groups[0], 4, 0).rows == std::vector<std::string>{"O-..", "2---"});
    // Letters that stand for several blocks do not hide the few that are in use.
    const BlockMap small = block_map(snapshot.groups[0], 2, 1);
    CHECK(small.blocks_per_letter == 4);
    CHECK(small.rows.size() == 1);
    CHECK(small.rows[0][0] != '.');
    CHECK(small.rows[0][1] == '-');
    CHECK(block_letter(BlockState::used, 12) == '+');
    CHECK(block_letter(BlockState::used, 1) == 'o');
}

TEST_CASE("the screen keeps to its size and to plain letters") {
    Busy busy(6);
    Snapshot snapshot = busy.after(80);
    snapshot.config.model = "m\x1b[31mvil";
    for (const auto& [columns, rows] : {std::pair{80, 24}, {40, 10}, {200, 60}, {1, 1}, {20, 3}}) {
        const auto lines = watch_lines(snapshot, nullptr, columns, rows);
        CHECK(std::ssize(lines) == rows);
        for (const std::string& line : lines) {
            CHECK(std::ssize(line) <= columns);
            CHECK(line.find('\x1b') == std::string::npos);
        }
    }
}

TEST_CASE("dumps with random changes are refused or shown, never more") {
    Busy busy(9);
    const std::string good = snapshot_to_json(busy.after(70));
    std::mt19937 random(11);
    int num_shown = 0;
    for (int round = 0; round < 3000; ++round) {
        std::string text = good;
        for (unsigned change = 0; change < 1 + random() % 3; ++change) {
            const size_t place = random() % text.size();
            constexpr std::string_view kLetters = "0123456789-.,[]{}\"truefpc";
            const char letter = kLetters[random() % kLetters.size()];
            if (random() % 2 == 0) {
                text[place] = letter;
            } else {
                text.insert(place, std::string(1 + random() % 8, letter));
            }
        }
        try {
            const Snapshot snapshot = snapshot_from_json(text, "changed");
            ++num_shown;
            cache_text(snapshot, true);
            cache_svg(snapshot);
            requests_text(snapshot);
            watch_lines(snapshot, nullptr, 80, 24);
            if (snapshot.has_tree) tree_svg(snapshot);
            if (snapshot.has_tree) tree_text(snapshot);
            for (const SequenceSnapshot& row : snapshot.sequences) {
                table_text(snapshot, row.request);
            }
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::bad_data);
        }
    }
    CHECK(num_shown > 20);
}

TEST_CASE("a dump that was cut off names its file") {
    const std::string path = "/tmp/nvllm_snapshot_views_test.json";
    std::ofstream(path) << "{\"schema\":\"nvllm.snapshot/1\",\"now_s\":1.0,";
    CHECK_THROWS_WITH_AS(read_snapshot_file(path), doctest::Contains(path.c_str()), Error);
    std::filesystem::remove(path);
}
