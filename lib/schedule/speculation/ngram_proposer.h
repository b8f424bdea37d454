// "ngram": proposes what followed the last tokens where they stood before, in the prompt or in the
// answer itself (prompt look-up decoding, Saxena 2023). No state, and no memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/schedule/planning/draft_proposer.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

// Where the end of a text stands in it before.
struct EarlierMatch {
    int32_t length = 0;  // tokens that are alike; 0: there is none
    size_t end = 0;      // the position behind them
};

// The longest match of `least` to `most` tokens; of several, the latest. One pass over the text.
EarlierMatch find_earlier(std::span<const int32_t> text, int32_t least, int32_t most);

// `count` tokens from the match on. Where the text ends, it goes on with what was just copied: a
// repetition is continued.
DraftTokens copy_on(std::span<const int32_t> text, const EarlierMatch& match, int32_t count);

class NgramProposer : public DraftProposer {
  public:
    explicit NgramProposer(const SpeculationConfig& config)
        : num_drafts_(config.num_speculative_tokens),
          least_(config.prompt_lookup_min),
          most_(config.prompt_lookup_max) {}

    DraftTokens propose(const Sequence& sequence, const std::string& cache_salt) override;

  private:
    int32_t num_drafts_;
    int32_t least_;
    int32_t most_;
};

}  // namespace nvllm
