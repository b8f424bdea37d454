// Beam search as a pure function: from the beams' likeliest next tokens to the next beams.
//
// The same hypotheses and scores as transformers' `generate(num_beams=...)`: of the best
// (1 + end tokens) * width extensions of all beams, those that end become hypotheses if they are
// among the best `width`, and the best that do not end are the next beams.
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

    // The number of candidates that advance() needs of each beam.
    static int32_t num_candidates(const SamplingParams& sampling, size_t num_end_tokens);

    // The next beams, best first, from the likeliest next tokens of each current beam, best first.
    // `generated`: the tokens that each beam has generated. Empty when the search has ended.
    // REQUIRES: all beams are equally long; the first call is of one beam.
    std::vector<BeamChoice> advance(std::span<const std::vector<TokenLogprob>> candidates,
                                    std::span<const std::span<const int32_t>> generated);

    // Best first; all are finished when the search has ended.
    const std::vector<BeamHypothesis>& hypotheses() const { return hypotheses_; }
    int32_t width() const { return width_; }

  private:
    struct Extension {
        BeamChoice choice;
        bool finished = false;
        bool ended = false;
    };

    std::vector<Extension> best_extensions(
        std::span<const std::vector<TokenLogprob>> candidates) const;
    void keep_finished(std::span<const Extension> best,
                       std::span<const std::span<const int32_t>> generated);
    bool can_improve(float best_running_score) const;
    bool all_finished() const;
    float penalty(int32_t length) const;

    int32_t width_;
    int32_t max_tokens_;
    float length_penalty_;
    EarlyStopping early_stopping_;
    std::vector<int32_t> end_tokens_;
    size_t num_kept_;            // extensions that each step considers
    std::vector<float> scores_;  // of the current beams
    std::vector<BeamHypothesis> hypotheses_;
    int32_t length_ = 0;  // generated so far
    bool improvable_ = true;
};

}  // namespace nvllm
