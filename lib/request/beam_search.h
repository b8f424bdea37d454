// Beam search as a pure function: from the beams' likeliest next tokens to the next beams.
//
// The same hypotheses and scores as transformers' `generate(num_beams=...)`: of the best
// (1 + end tokens) * width continuations of all beams, those that end are kept as hypotheses when
// they are among the best `width`, and the best that go on are the next beams.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/request/sampling_params.h"
#include "lib/request/step_result.h"

namespace nvllm {

struct BeamHypothesis {
    std::vector<int32_t> token_ids;  // generated
    float score = -1e9f;             // sum of logprobs / length^length_penalty
    bool finished = false;
    bool ended = false;  // by an end token, not by its length
};

// One beam of the next step: `token_id` after the tokens of beam `parent`.
struct BeamChoice {
    size_t parent = 0;
    int32_t token_id = 0;
    float score = 0.0f;  // sum of logprobs
};

class BeamSearch {
  public:
    // `end_tokens`: those that end a hypothesis. REQUIRES: sampling.max_tokens is set.
    BeamSearch(const SamplingParams& sampling, std::vector<int32_t> end_tokens);

    // Continuations that advance() needs of each beam.
    static int32_t num_candidates(const SamplingParams& sampling, size_t num_end_tokens);

    // The next beams, best first, from the likeliest next tokens of each present one, best first.
    // `generated`: what each beam has generated so far. Empty when the search is over.
    // REQUIRES: all beams are equally long; the first call is of one beam.
    std::vector<BeamChoice> advance(std::span<const std::vector<TokenLogprob>> candidates,
                                    std::span<const std::span<const int32_t>> generated);

    // Best first; all are finished when the search is over.
    const std::vector<BeamHypothesis>& hypotheses() const { return hypotheses_; }
    int32_t width() const { return width_; }

  private:
    struct Continuation {
        BeamChoice choice;
        bool finished = false;
        bool ended = false;
    };

    std::vector<Continuation> best_continuations(
        std::span<const std::vector<TokenLogprob>> candidates) const;
    void keep_finished(std::span<const Continuation> best,
                       std::span<const std::span<const int32_t>> generated);
    bool can_improve(float best_running_score) const;
    bool all_finished() const;
    float penalty(int32_t length) const;

    int32_t width_;
    int32_t max_tokens_;
    float length_penalty_;
    EarlyStopping early_stopping_;
    std::vector<int32_t> end_tokens_;
    size_t num_kept_;            // continuations looked at in each step
    std::vector<float> scores_;  // of the present beams
    std::vector<BeamHypothesis> hypotheses_;
    int32_t length_ = 0;  // generated so far
    bool improvable_ = true;
};

}  // namespace nvllm
