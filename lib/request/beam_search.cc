// The steps of transformers' beam search, for one request.
#include "lib/request/beam_search.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr float kImpossible = -1e9f;

}  // namespace

int32_t BeamSearch::num_candidates(const SamplingParams& sampling, size_t num_end_tokens) {
    return std::max(2, 1 + static_cast<int32_t>(num_end_tokens)) * sampling.num_sequences();
}

BeamSearch::BeamSearch(const SamplingParams& sampling, std::vector<int32_t> end_tokens)
    : width_(sampling.num_sequences()),
      max_tokens_(sampling.max_tokens.value()),
      length_penalty_(sampling.length_penalty),
      early_stopping_(sampling.early_stopping),
      end_tokens_(std::move(end_tokens)),
      num_kept_(static_cast<size_t>(num_candidates(sampling, end_tokens_.size()))),
      scores_{0.0f},
      hypotheses_(static_cast<size_t>(width_)) {}

float BeamSearch::penalty(int32_t length) const {
    return static_cast<float>(std::pow(static_cast<double>(length), length_penalty_));
}

bool BeamSearch::all_finished() const {
    return std::ranges::all_of(hypotheses_, &BeamHypothesis::finished);
}

// Of equal scores the one of the earlier beam, then the likelier or lower token, is first.
std::vector<BeamSearch::Extension> BeamSearch::best_extensions(
    std::span<const std::vector<TokenLogprob>> candidates) const {
    std::vector<Extension> all;
    for (size_t beam = 0; beam < candidates.size(); ++beam) {
        for (const TokenLogprob& candidate : candidates[beam]) {
            all.push_back({{beam, candidate.token_id, scores_[beam] + candidate.logprob}});
        }
    }
    std::ranges::stable_sort(all, [](const Extension& one, const Extension& other) {
        return one.choice.score > other.choice.score;
    });
    all.resize(std::min(all.size(), num_kept_));
    for (Extension& extension : all) {
        extension.ended =
            std::ranges::find(end_tokens_, extension.choice.token_id) != end_tokens_.end();
        extension.finished = extension.ended || length_ + 1 >= max_tokens_;
    }
    return all;
}

// Only the best `width` extensions can become hypotheses; the others are there because beams are
// needed that do not end.
void BeamSearch::keep_finished(std::span<const Extension> best,
                               std::span<const std::span<const int32_t>> generated) {
    const bool full = early_stopping_ == EarlyStopping::yes && all_finished();
    if (full || !improvable_) return;
    for (size_t i = 0; i < std::min(best.size(), static_cast<size_t>(width_)); ++i) {
        if (!best[i].finished) continue;
        const BeamChoice& choice = best[i].choice;
        const std::span<const int32_t> tokens = generated[choice.parent];
        BeamHypothesis hypothesis{{tokens.begin(), tokens.end()},
                                  choice.score / penalty(length_ + 1),
                                  true,
                                  best[i].ended};
        hypothesis.token_ids.push_back(choice.token_id);
        hypotheses_.push_back(std::move(hypothesis));
    }
    std::ranges::stable_sort(hypotheses_,
                             [](const BeamHypothesis& one, const BeamHypothesis& other) {
                                 return one.score > other.score;
                             });
    hypotheses_.resize(static_cast<size_t>(width_));
}

// Whether the best running beam could still become better than the worst hypothesis.
bool BeamSearch::can_improve(float best_running_score) const {
    const bool to_the_end = early_stopping_ == EarlyStopping::never && length_penalty_ > 0.0f;
    const float possible = best_running_score / penalty(to_the_end ? max_tokens_ : length_);
    return std::ranges::any_of(hypotheses_, [&](const BeamHypothesis& hypothesis) {
        return possible > (hypothesis.finished ? hypotheses_.back().score : kImpossible);
    });
}

std::vector<BeamChoice> BeamSearch::advance(std::span<const std::vector<TokenLogprob>> candidates,
                                            std::span<const std::span<const int32_t>> generated) {
    NVLLM_CHECK(candidates.size() == scores_.size() && generated.size() == scores_.size(),
                "every beam has its candidates and its tokens");
    const std::vector<Extension> best = best_extensions(candidates);
    keep_finished(best, generated);
    std::vector<BeamChoice> running;
    for (const Extension& extension : best) {
        if (extension.finished || running.size() == static_cast<size_t>(width_)) continue;
        running.push_back(extension.choice);
    }
    ++length_;
    scores_.clear();
    for (const BeamChoice& choice : running) scores_.push_back(choice.score);
    improvable_ = improvable_ && !running.empty() && can_improve(scores_.front());
    const bool stops_early = early_stopping_ == EarlyStopping::yes && all_finished();
    if (!improvable_ || stops_early) running.clear();
    return running;
}

}  // namespace nvllm
