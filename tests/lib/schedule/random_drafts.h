// Proposes draft tokens of which some are right and some are wrong.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>

#include "lib/schedule/planning/draft_proposer.h"
#include "tests/lib/schedule/fake_worker.h"

namespace nvllm {

class RandomDrafts : public DraftProposer {
  public:
    // Up to `max_drafts` tokens; of each, `percent_wrong` of 100 differ from the rule's choice.
    // With `branches` there may be a wrong one in addition before each.
    RandomDrafts(TokenRule rule, unsigned seed, int32_t max_drafts, int32_t percent_wrong,
                 bool branches = false)
        : rule_(rule),
          random_(seed),
          max_drafts_(max_drafts),
          percent_wrong_(percent_wrong),
          branches_(branches) {}

    DraftTokens propose(const Sequence& sequence, const std::string&) override {
        return draft(sequence.token_ids, sequence.index);
    }

    DraftTokens draft(std::span<const int32_t> tokens, int32_t index) {
        DraftTokens drafts;
        uint64_t digest = prefix_digests(tokens).back();
        const int32_t count = max_drafts_ == 0 ? 0 : draw(max_drafts_ + 1);
        int32_t last_row = 0;
        for (int32_t i = 0; i < count; ++i) {
            const int32_t shift = draw(100) < percent_wrong_ ? 1 : 0;
            const auto add = [&](int32_t by) {
                drafts.token_ids.push_back((rule_.next(digest, index) + by) % rule_.vocab_size);
                if (branches_) drafts.parents.push_back(last_row);
            };
            if (branches_ && draw(2) == 0) add(2);
            add(shift);
            last_row = drafts.size();
            const std::span<const int32_t> last(&drafts.token_ids.back(), 1);
            digest = prefix_digests(last, digest)[0];
        }
        return drafts;
    }

  private:
    int32_t draw(int32_t below) {
        return static_cast<int32_t>(random_() % static_cast<unsigned>(below));
    }

    TokenRule rule_;
    std::mt19937 random_;
    int32_t max_drafts_;
    int32_t percent_wrong_;
    bool branches_;
};

}  // namespace nvllm
