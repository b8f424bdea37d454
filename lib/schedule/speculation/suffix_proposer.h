// "suffix": proposes what followed the last tokens in answers that have ended, or in the text
// itself (after SuffixDecoding, Oliaro et al. 2024, by an index of hashes in place of a tree).
//
// Of past answers, as many tokens as configured are remembered; the oldest go first. An index finds
// the places with the same last tokens, and of those the ones that are alike furthest back agree on
// what comes next, each with one vote.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/schedule/planning/draft_proposer.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

// Tokens of past texts, and where each run of `order` tokens stood.
class SuffixIndex {
  public:
    // `capacity`: tokens; memory is taken with the first text.
    SuffixIndex(int32_t capacity, int32_t order);

    // Remembers a text; texts with different salts are never looked up together.
    void add(std::span<const int32_t> text, uint64_t salt);

    struct Found {
        int32_t length = 0;  // tokens that are alike at the end of the text; 0: none
        std::vector<int32_t> next;
    };
    // What followed the longest match of at least `order` tokens, and at most `count` of it.
    Found find(std::span<const int32_t> text, uint64_t salt, int32_t count);

  private:
    size_t bucket_of(std::span<const int32_t> tokens, uint64_t salt) const;
    size_t place(int64_t position) const {
        return static_cast<size_t>(position) & (tokens_.size() - 1);
    }
    bool is_kept(int64_t position) const {
        return position >= 0 && position >= end_ - static_cast<int64_t>(tokens_.size());
    }
    int32_t match_length(std::span<const int32_t> text, int64_t last) const;
    void list_longest(std::span<const int32_t> text, uint64_t salt, Found& found);
    void vote(int32_t count, Found& found);

    size_t capacity_;
    size_t order_;
    int64_t end_ = 0;                // positions count all tokens that ever came
    std::vector<int32_t> tokens_;    // a ring; kBetween stands between texts
    std::vector<uint64_t> salts_;    // of the same places
    std::vector<int64_t> previous_;  // the position before that ends a run of the same bucket
    std::vector<int64_t> latest_;    // by bucket; -1: none
    std::vector<int64_t> matches_;   // of a search: positions of their last tokens
};

class SuffixProposer : public DraftProposer {
  public:
    explicit SuffixProposer(const SpeculationConfig& config);

    DraftTokens propose(const Sequence& sequence, const std::string& cache_salt) override;
    void learn(const Sequence& sequence, const std::string& cache_salt) override;

  private:
    int32_t num_drafts_;
    int32_t least_;
    SuffixIndex index_;
};

}  // namespace nvllm
