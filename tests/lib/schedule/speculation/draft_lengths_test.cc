// How many drafts a step gets, on machines whose steps take known times.
#include "lib/schedule/speculation/draft_lengths.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <tuple>
#include <vector>

namespace nvllm {
namespace {

// Runs steps of a batch in which each draft is right with a given chance.
struct Machine {
    int32_t batch;
    std::vector<double> right;  // of each sequence
    std::function<double(int32_t)> step_ms;
    DraftLengths lengths{8};
    std::vector<DraftHistory> histories = std::vector<DraftHistory>(static_cast<size_t>(batch));
    std::mt19937 random{7};
    double ms = 0.0;
    int64_t tokens = 0;
    int64_t drafts = 0;
    bool is_busy = false;
    double pace = 1.0;
    int calm_steps = 0;

    Machine(int32_t num_sequences, double chance, std::function<double(int32_t)> times)
        : batch(num_sequences),
          right(static_cast<size_t>(num_sequences), chance),
          step_ms(std::move(times)) {}

    int32_t accepted(int32_t length, double chance) {
        int32_t count = 0;
        while (count < length && std::uniform_real_distribution<>(0.0, 1.0)(random) < chance) {
            ++count;
        }
        return count;
    }

    // How much longer a step takes on a busy machine: for a while once to three times as long, a
    // little more or less each time, and some far longer.
    double disturbance() {
        if (!is_busy) return 1.0;
        const auto drawn = [this] { return std::uniform_real_distribution<>(0.0, 1.0)(random); };
        if (calm_steps-- <= 0) {
            pace = 1.0 + 2.0 * drawn();
            calm_steps = 20 + static_cast<int>(180.0 * drawn());
        }
        const double interrupted = drawn() < 0.05 ? 1.0 + 2.0 * drawn() : 1.0;
        return pace * (1.0 + 0.1 * drawn()) * interrupted;
    }

    void step() {
        std::vector<DraftCandidate> candidates;
        for (const DraftHistory& history : histories) candidates.push_back({&history, 4, 0});
        lengths.choose(candidates, batch);
        int32_t num_drafts = 0;
        for (size_t i = 0; i < candidates.size(); ++i) {
            const int32_t length = candidates[i].length;
            REQUIRE(length >= 0);
            REQUIRE(length <= 4);
            num_drafts += length;
            const int32_t num_right = accepted(length, right[i]);
            if (length > 0) lengths.count(histories[i], length, num_right);
            tokens += 1 + num_right;
        }
        const double took = step_ms(batch + num_drafts);
        lengths.observe(batch + num_drafts, num_drafts, took * disturbance());
        ms += took;
        drafts += num_drafts;
    }

    // Tokens a millisecond, relative to what it would be without drafts.
    double gain(int steps) {
        ms = 0.0;
        tokens = drafts = 0;
        for (int i = 0; i < steps; ++i) step();
        return static_cast<double>(tokens) / ms * step_ms(batch) / batch;
    }
};

// Weights are read once, and products cost little beside them.
double bound_by_memory(int32_t tokens) { return 10.0 + 0.1 * tokens; }
double bound_by_products(int32_t tokens) { return 1.0 * tokens; }

TEST_CASE("draft lengths: drafts that are right become as many as there may be") {
    for (const int32_t batch : {1, 8, 32}) {
        CAPTURE(batch);
        Machine machine(batch, 1.0, bound_by_memory);
        machine.gain(600);
        CHECK(machine.gain(600) > 0.9 * 5.0 * bound_by_memory(batch) / bound_by_memory(5 * batch));
    }
}

TEST_CASE("draft lengths: drafts that are never right cost less than a fiftieth") {
    for (const int32_t batch : {1, 8, 32, 64}) {
        for (const auto& times : {bound_by_memory, bound_by_products}) {
            CAPTURE(batch);
            Machine machine(batch, 0.0, times);
            CHECK(machine.gain(500) > 0.98);
            CHECK(machine.drafts > 0);  // they were tried
        }
    }
}

TEST_CASE("draft lengths: where each token takes its time there are no drafts, but for trials") {
    Machine machine(16, 0.9, bound_by_products);
    CHECK(machine.gain(1000) > 0.98);
    CHECK(machine.drafts < 200);
}

TEST_CASE("draft lengths: in between, never slower than without") {
    for (const int32_t batch : {1, 8, 32, 64}) {
        for (const double chance : {0.2, 0.5, 0.8}) {
            for (const auto& times : {bound_by_memory, bound_by_products}) {
                CAPTURE(batch);
                CAPTURE(chance);
                Machine machine(batch, chance, times);
                CHECK(machine.gain(2000) > 0.98);
            }
        }
    }
}

TEST_CASE("draft lengths: a machine that others use as well misleads little") {
    for (const int32_t batch : {1, 8, 32, 64}) {
        for (const auto& times : {bound_by_memory, bound_by_products}) {
            for (const double chance : {0.0, 0.3, 0.6, 0.9}) {
                double gains = 0.0;
                for (uint32_t seed = 0; seed < 8; ++seed) {
                    Machine machine(batch, chance, times);
                    machine.is_busy = true;
                    machine.random.seed(seed);
                    gains += machine.gain(1000) / 8.0;
                }
                CAPTURE(batch);
                CAPTURE(chance);
                CHECK(gains > 0.95);
            }
        }
    }
}

TEST_CASE("draft lengths: the sequence whose drafts are right gets them") {
    Machine machine(8, 0.0, bound_by_memory);
    machine.right[5] = 1.0;
    machine.gain(1500);
    const int64_t before = machine.histories[5].num_drafted;
    machine.gain(200);
    CHECK(machine.histories[5].num_drafted - before > 400);
    // The others get those of trials.
    CHECK(machine.drafts - (machine.histories[5].num_drafted - before) < 300);
}

TEST_CASE("draft lengths: a text that begins to repeat itself is noticed") {
    Machine machine(1, 0.0, bound_by_memory);
    machine.gain(1000);
    machine.right[0] = 1.0;
    machine.gain(300);
    CHECK(machine.gain(200) > 3.0);
}

TEST_CASE("draft lengths: a step whose size was hardly measured without drafts has none") {
    DraftLengths lengths(8);
    DraftHistory history;
    std::vector<DraftCandidate> candidates = {{&history, 4, 0}};
    lengths.choose(candidates, 1);
    CHECK(candidates[0].length == 0);
    for (int i = 0; i < 3; ++i) lengths.observe(1, 0, 10.0);
    lengths.choose(candidates, 1);
    CHECK(candidates[0].length == 0);
    lengths.observe(1, 0, 10.0);
    lengths.choose(candidates, 1);
    CHECK(candidates[0].length > 0);
    lengths.choose({}, 1);
}

// A model makes the drafts, in the step before the one that verifies them.
struct DraftingMachine {
    double right;         // of each draft
    double ms_per_draft;  // of the model's pass
    DraftLengths lengths{8, true};
    DraftHistory history = {};
    std::mt19937 random{11};
    int32_t pending = 0;
    double ms = 0.0;
    int64_t tokens = 0;

    double gain(int steps) {
        ms = 0.0;
        tokens = 0;
        for (int i = 0; i < steps; ++i) step();
        return static_cast<double>(tokens) / ms * bound_by_memory(1);
    }

    void step() {
        std::vector<DraftCandidate> candidates = {{&history, 4, 0}};
        lengths.choose(candidates, 1);
        int32_t num_right = 0;
        while (num_right < pending && std::uniform_real_distribution<>(0.0, 1.0)(random) < right) {
            ++num_right;
        }
        if (pending > 0) lengths.count(history, pending, num_right);
        const int32_t next = candidates[0].length;
        const double draft_ms = next * ms_per_draft;
        const double step_ms = bound_by_memory(1 + pending) + draft_ms;
        lengths.observe(1 + pending, pending, step_ms, {next, draft_ms});
        tokens += 1 + num_right;
        ms += step_ms;
        pending = next;
    }
};

TEST_CASE("draft lengths: of a tree as many of the most confident drafts as pay") {
    // The i-th draft is right with these chances, whatever the others are.
    const std::vector<double> chances = {0.8, 0.6, 0.45, 0.1, 0.05, 0.02, 0.01, 0.01};
    for (const auto& [ms_per_row, least, most] :
         {std::tuple{0.1, 3.5, 6.6}, std::tuple{2.0, 1.5, 3.2}, std::tuple{12.0, 0.0, 0.3}}) {
        CAPTURE(ms_per_row);
        DraftLengths lengths(8, true, true);
        DraftHistory history;
        std::mt19937 random{5};
        int32_t pending = 0;
        int64_t num_drafts = 0;
        double ms = 0.0;
        int64_t tokens = 0;
        for (int step = 0; step < 3000; ++step) {
            std::vector<DraftCandidate> candidates = {{&history, 8, 0}};
            lengths.choose(candidates, 1);
            std::vector<int32_t> rows;
            for (int32_t i = 0; i < pending; ++i) {
                const double drawn = std::uniform_real_distribution<>(0.0, 1.0)(random);
                if (drawn < chances[static_cast<size_t>(i)]) rows.push_back(i + 1);
            }
            if (pending > 0) lengths.count_tree(history, pending, rows);
            const double step_ms = 10.0 + ms_per_row * pending;
            lengths.observe(1 + pending, pending, step_ms, {candidates[0].length, 0.0});
            pending = candidates[0].length;
            if (step < 1000) continue;
            num_drafts += pending;
            tokens += 1 + std::ssize(rows);
            ms += step_ms;
        }
        const double mean = static_cast<double>(num_drafts) / 2000.0;
        CHECK(mean >= least);
        CHECK(mean <= most);
        CHECK(static_cast<double>(tokens) / ms * 10.0 > 0.97);
        CHECK(lengths.rank_chances(2)[1] <= lengths.rank_chances(2)[0]);
    }
}

TEST_CASE("draft lengths: a sequence whose trees are wrong gets none, beside others") {
    DraftLengths lengths(8, false, true);
    std::vector<DraftHistory> histories(2);
    for (int step = 0; step < 400; ++step) {
        std::vector<DraftCandidate> candidates = {{&histories[0], 4, 0}, {&histories[1], 4, 0}};
        lengths.choose(candidates, 2);
        int32_t num_drafts = 0;
        for (size_t i = 0; i < 2; ++i) {
            const int32_t count = candidates[i].length;
            num_drafts += count;
            std::vector<int32_t> rows;
            for (int32_t row = 1; row <= std::min(count, 2) && i == 0; ++row) rows.push_back(row);
            if (count > 0) lengths.count_tree(histories[i], count, rows);
        }
        lengths.observe(2 + num_drafts, num_drafts, 10.0 + 1.0 * num_drafts);
    }
    CHECK(histories[0].num_drafted > 500);
    CHECK(histories[1].num_drafted < histories[0].num_drafted / 4);
}

TEST_CASE("draft lengths: a cheap model's drafts are used, a dear one's are not") {
    // At 0.8, four drafts make 3.36 tokens in the time of a step and of four passes.
    DraftingMachine cheap{0.8, 0.5};
    cheap.gain(600);
    const double best = 3.36 * bound_by_memory(1) / (bound_by_memory(5) + 4 * 0.5);
    CHECK(cheap.gain(1000) > 0.9 * best);
    for (const double ms_per_draft : {9.0, 30.0}) {
        CAPTURE(ms_per_draft);
        DraftingMachine dear{0.8, ms_per_draft};
        dear.gain(600);
        CHECK(dear.gain(2000) > 0.97);
    }
    DraftingMachine wrong{0.0, 0.5};
    wrong.gain(600);
    CHECK(wrong.gain(2000) > 0.97);
}

}  // namespace
}  // namespace nvllm
