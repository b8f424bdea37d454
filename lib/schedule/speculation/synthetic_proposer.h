// "synthetic": proposes the right token with a given chance, for measurements of speed.
//
// The right token is known because the same prompt was answered before: the proposer remembers
// whole answers by their prompts, and follows the one that begins as the sequence does. Every other
// proposal is another token, which the verification refuses. So answers stay as they are, and only
// how many proposals are right is made up. Which positions those are follows from the prompt and
// the position alone: runs repeat.
//
// Salts are not heeded: a measurement uses them to keep the prefix cache out of it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/schedule/planning/draft_proposer.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

class SyntheticProposer : public DraftProposer {
  public:
    explicit SyntheticProposer(const SpeculationConfig& config)
        : num_drafts_(config.num_speculative_tokens), acceptance_(config.synthetic_acceptance) {}

    DraftTokens propose(const Sequence& sequence, const std::string& cache_salt) override;
    // Of several answers to a prompt the longest is remembered, and of equal ones the latest.
    void learn(const Sequence& sequence, const std::string& cache_salt) override;

  private:
    int32_t num_drafts_;
    double acceptance_;
    // Prompts with their answers, by the hash of the prompt.
    std::unordered_map<uint64_t, std::vector<int32_t>> texts_;
    size_t num_tokens_ = 0;  // of all texts
};

}  // namespace nvllm
