// Texts that must follow, as drafts.
#include "lib/schedule/speculation/forced_drafts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>

namespace nvllm {
namespace {

// Lets one text come, of a hundred tokens.
class OneText : public AnswerConstraint {
  public:
    bool fill_mask(std::span<uint32_t>) override { return false; }
    bool accept(int32_t) override { return true; }
    void rollback(int32_t) override {}
    bool has_ended() const override { return false; }
    std::vector<int32_t> forced_tokens(int32_t most) override {
        return std::vector<int32_t>(static_cast<size_t>(std::min(most, 100)), 7);
    }
};

TEST_CASE("forced drafts: as many as fit, and not too many") {
    ForcedDrafts drafts;
    OneText text;
    CHECK(drafts.propose(text, 5).token_ids == std::vector<int32_t>(5, 7));
    CHECK(drafts.propose(text, 1000).size() == 16);
}

TEST_CASE("forced drafts: where models choose other tokens, they are tried once in a while") {
    ForcedDrafts drafts;
    OneText text;
    for (int i = 0; i < 100; ++i) {
        if (drafts.propose(text, 4).size() > 0) drafts.count(4, 0);
    }
    int32_t num_tried = 0;
    for (int i = 0; i < 320; ++i) num_tried += drafts.propose(text, 4).size() > 0;
    CHECK(num_tried == 10);
    // And often again where they come.
    for (int i = 0; i < 100; ++i) drafts.count(4, 4);
    CHECK(drafts.propose(text, 4).size() == 4);
    CHECK(drafts.propose(text, 4).size() == 4);
}

}  // namespace
}  // namespace nvllm
