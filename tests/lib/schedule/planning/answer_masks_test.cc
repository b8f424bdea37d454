// Sequences that are held to something: masks in plans, and positions that follow committed tokens.
#include "lib/schedule/planning/answer_masks.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

constexpr TokenRule kRule{.vocab_size = 60};
constexpr size_t kWords = 2;

// Lets the tokens of a list come, one after the other, and all tokens at the places `open`.
class ListConstraint : public AnswerConstraint {
  public:
    explicit ListConstraint(std::vector<int32_t> tokens, size_t open = SIZE_MAX)
        : tokens_(std::move(tokens)), open_(open) {}

    bool fill_mask(std::span<uint32_t> mask) override {
        if (position_ == open_) return false;
        std::ranges::fill(mask, 0);
        const auto token = static_cast<size_t>(tokens_.at(position_));
        mask[token / 32] |= uint32_t{1} << (token % 32);
        return true;
    }
    bool accept(int32_t token) override {
        if (position_ == tokens_.size() || token != tokens_[position_]) return false;
        ++position_;
        return true;
    }
    void rollback(int32_t tokens) override { position_ -= static_cast<size_t>(tokens); }
    bool has_ended() const override { return position_ == tokens_.size(); }
    std::vector<int32_t> forced_tokens(int32_t most) override {
        const size_t count = std::min(static_cast<size_t>(most), tokens_.size() - position_);
        const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(position_);
        return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }

  private:
    std::vector<int32_t> tokens_;
    size_t open_;
    size_t position_ = 0;
};

class ListSource : public AnswerConstraintSource {
  public:
    explicit ListSource(std::vector<int32_t> tokens, size_t open = SIZE_MAX)
        : tokens_(std::move(tokens)), open_(open) {}
    std::unique_ptr<AnswerConstraint> begin() const override {
        return std::make_unique<ListConstraint>(tokens_, open_);
    }
    size_t mask_words() const override { return kWords; }

  private:
    std::vector<int32_t> tokens_;
    size_t open_;
};

// A request whose constraint is the answer that the fake worker gives.
Request held(RequestId id, int32_t num_prompt, int32_t max_tokens) {
    Request request =
        make_request(id, counting_tokens(static_cast<int32_t>(id) * 10, num_prompt), max_tokens);
    request.sampling.min_tokens = max_tokens;
    std::vector<int32_t> tokens = expected_tokens(request, 0, kRule, 128);
    tokens.erase(tokens.begin(), tokens.begin() + num_prompt);
    request.constraint = std::make_shared<ListSource>(tokens);
    return request;
}

// Each row of the entry allows exactly the token that the answer has there.
bool has_right_masks(const Simulation& simulation, size_t index) {
    const PlanEntry& entry = simulation.last_plan.entries.at(index);
    const Request& request = simulation.requests.at(entry.sequence);
    const std::vector<int32_t> tokens = expected_tokens(request, 0, kRule, 128);
    for (const EntryExtras& extras : simulation.last_plan.extras) {
        if (extras.entry != index) continue;
        const size_t rows = extras.drafts.token_ids.size() + 1;
        if (extras.token_mask.size() != rows * kWords) return false;
        for (size_t row = 0; row < rows; ++row) {
            const size_t place = static_cast<size_t>(entry.first + entry.count) - rows + 1 + row;
            std::vector<uint32_t> wanted(kWords);
            // After the last token of the answer nothing may come.
            if (place < tokens.size()) {
                wanted[static_cast<size_t>(tokens[place] / 32)] = uint32_t{1}
                                                                  << (tokens[place] % 32);
            }
            for (size_t word = 0; word < kWords; ++word) {
                if (extras.token_mask[row * kWords + word] != wanted[word]) return false;
            }
        }
        return true;
    }
    return false;
}

TEST_CASE("answer masks: each step of a constrained sequence has the mask of its next token") {
    SchedulerConfig config = small_config();
    config.chunk_size = 4;
    Simulation simulation(config, small_cache(), kRule);
    simulation.add(held(1, 6, 5));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 0, 4}});
    CHECK(simulation.last_plan.extras.empty());  // it chooses nothing yet
    simulation.add(endless(2, 3, 20));
    for (int i = 0; i < 5; ++i) {
        REQUIRE(simulation.step());
        REQUIRE(simulation.last_plan.extras.size() == 1);
        CHECK(has_right_masks(simulation, simulation.last_plan.extras[0].entry));
    }
    CHECK(simulation.finished.at(1).num_generated() == 5);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("answer masks: a text that must follow comes in few steps, beside others") {
    SchedulerConfig config = small_config();
    config.speculation.proposes_forced = true;
    Simulation simulation(config, small_cache(), kRule);
    simulation.add(held(1, 6, 14));
    simulation.add(endless(2, 3, 20));
    simulation.step();
    simulation.step();
    CHECK(simulation.last_plan.extras.at(0).drafts.size() > 3);
    CHECK(has_right_masks(simulation, 0));
    while (!simulation.finished.contains(1)) REQUIRE(simulation.step());
    CHECK(simulation.finished.at(1).num_generated() == 14);
    CHECK(simulation.scheduler.stats().steps < 8);
    // No method proposed them.
    CHECK(simulation.scheduler.stats().speculation.drafts == 0);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("answer masks: a place where every token may come has no mask") {
    Request request = held(1, 6, 3);
    std::vector<int32_t> tokens = expected_tokens(request, 0, kRule, 128);
    tokens.erase(tokens.begin(), tokens.begin() + 6);
    request.constraint = std::make_shared<ListSource>(tokens, 1);
    Simulation simulation(small_config(), small_cache(), kRule);
    simulation.add(request);
    for (const size_t num_masks : {1, 0, 1}) {
        REQUIRE(simulation.step());
        CHECK(simulation.last_plan.extras.size() == num_masks);
    }
    CHECK(simulation.all_well());
}

TEST_CASE("answer masks: a constrained sequence is not planned ahead of an unknown token") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.may_plan_ahead = [](const SamplingParams&) { return true; };
    Simulation simulation(config, small_cache(), kRule);
    simulation.add(held(1, 5, 4));
    simulation.add(held(2, 5, 4));
    for (int i = 0; i < 4; ++i) {
        REQUIRE(simulation.plan());
        // A full batch each time, and one in flight.
        CHECK(simulation.last_plan.entries.size() == 2);
        CHECK(has_right_masks(simulation, 0));
        CHECK(has_right_masks(simulation, 1));
        if (i < 3) CHECK_FALSE(simulation.plan());
        simulation.commit();
    }
    CHECK(simulation.num_finished == 2);
    CHECK(simulation.all_well());
}

TEST_CASE("answer masks: a lost worker and a preemption leave the position where it is") {
    const CacheConfig cache = small_cache(9);
    Simulation simulation(small_config(), cache, kRule);
    for (RequestId id = 1; id <= 8; ++id) simulation.add(held(id, 2, 14));
    int num_checked = 0;
    for (int i = 0; simulation.scheduler.has_work() && i < 200; ++i) {
        const bool is_lost = i == 5;
        REQUIRE(simulation.plan());
        for (const EntryExtras& extras : simulation.last_plan.extras) {
            CHECK(has_right_masks(simulation, extras.entry));
            num_checked += is_lost ? 0 : 1;
        }
        if (is_lost) {
            simulation.results.clear();
            simulation.scheduler.reset_worker();
            simulation.worker = FakeWorker(cache, kRule);
        } else {
            simulation.commit();
        }
    }
    CHECK(num_checked == 8 * 14);
    CHECK(simulation.num_finished == 8);
    CHECK(simulation.scheduler.stats().preemptions > 0);
    CHECK(simulation.scheduler.stats().worker_resets == 1);
    CHECK(simulation.wrong == 0);
}

// Right tokens, then a wrong one.
class MixedDrafts : public DraftProposer {
  public:
    explicit MixedDrafts(int32_t num_right) : num_right_(num_right) {}
    DraftTokens propose(const Sequence& sequence, const std::string&) override {
        DraftTokens drafts;
        std::vector<int32_t> tokens = sequence.token_ids;
        for (int32_t i = 0; i < num_right_ + 2; ++i) {
            const int32_t right = kRule.next(prefix_digests(tokens).back(), sequence.index);
            tokens.push_back(i == num_right_ ? (right + 1) % kRule.vocab_size : right);
            drafts.token_ids.push_back(tokens.back());
        }
        return drafts;
    }

  private:
    int32_t num_right_;
};

TEST_CASE("answer masks: drafts are cut where the constraint refuses them, and each has a mask") {
    MixedDrafts drafts(2);
    Simulation simulation(small_config(), small_cache(), kRule, &drafts);
    simulation.add(held(1, 6, 10));
    REQUIRE(simulation.step());
    int64_t num_drafts = 0;
    while (simulation.scheduler.has_work() && simulation.plan()) {
        REQUIRE(simulation.last_plan.extras.size() == 1);
        num_drafts += simulation.last_plan.extras[0].drafts.size();
        CHECK(has_right_masks(simulation, 0));
        simulation.commit();
    }
    CHECK(simulation.worker.drafts_accepted == num_drafts);
    CHECK(simulation.worker.drafts_rejected == 0);
    CHECK(num_drafts > 4);
    CHECK(simulation.finished.at(1).num_generated() == 10);
    CHECK(simulation.all_well());
}

TEST_CASE("answer masks: branches are cut where the constraint refuses them") {
    ListConstraint constraint({5, 6, 7});
    // 5 and 9 first; 6, then 8 behind 5; 7 behind 6, 1 behind 9, 2 behind 7, which ends it.
    DraftTokens drafts{{5, 9, 6, 8, 7, 1, 2}, {0, 0, 1, 1, 3, 2, 5}};
    drop_refused(constraint, drafts);
    CHECK(drafts == DraftTokens{{5, 6, 7}, {0, 1, 2}});
    CHECK_FALSE(constraint.has_ended());
    CHECK(constraint.accept(5));
    drafts = {{9, 6, 7, 8}, {0, 0, 2, 2}};
    drop_refused(constraint, drafts);
    CHECK(drafts == DraftTokens{{6, 7}, {0, 1}});
    drafts = {{6, 7, 8}, {}};
    drop_refused(constraint, drafts);
    CHECK(drafts == DraftTokens{{6, 7}, {}});
}

TEST_CASE("answer masks: a token that the constraint refuses ends that sequence alone") {
    Request request = held(1, 6, 8);
    std::vector<int32_t> tokens = expected_tokens(request, 0, kRule, 128);
    tokens.erase(tokens.begin(), tokens.begin() + 6);
    tokens[3] = (tokens[3] + 1) % kRule.vocab_size;
    request.constraint = std::make_shared<ListSource>(tokens);
    Simulation simulation(small_config(), small_cache(), kRule);
    simulation.add(request);
    simulation.add(endless(2, 6, 8));
    simulation.run();
    CHECK(simulation.finished.at(1).finish_reason == FinishReason::error);
    CHECK(simulation.finished.at(1).num_generated() == 4);
    CHECK(simulation.finished.at(2).finish_reason == FinishReason::length);
    CHECK(simulation.all_well());
}

TEST_CASE("answer masks: each sequence of a request has a position of its own") {
    Request request = endless(1, 6, 3);
    request.sampling.n = 2;
    request.constraint = std::make_shared<ListSource>(std::vector<int32_t>{5, 6, 7});
    Parts parts;
    ScheduledSequence& one = parts.add(request);
    one.constraint = request.constraint->begin();
    const auto other = request.constraint->begin();
    CHECK(advance_constraint(one, std::vector<int32_t>{5, 6}));
    DraftTokens drafts{{7, 8}, {}};
    drop_refused(*one.constraint, drafts);
    CHECK(drafts == DraftTokens{{7}, {}});
    drafts = {{5, 6, 7, 8}, {}};
    drop_refused(*other, drafts);
    CHECK(drafts.size() == 3);
    CHECK_FALSE(advance_constraint(one, std::vector<int32_t>{8}));
}

}  // namespace
}  // namespace nvllm
