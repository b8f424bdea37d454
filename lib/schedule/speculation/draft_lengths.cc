// Chances, the best number of drafts, and trials.
#include "lib/schedule/speculation/draft_lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace nvllm {
namespace {

// A gain below is within what times differ by anyway.
constexpr double kLeastGain = 1.05;
// What is known of all sequences counts like so many drafts of the one, and before any are known
// every second one is taken to be right.
constexpr double kWeightOfAll = 1.0;
constexpr double kFirstChance = 0.5;
constexpr double kWeightOfFirst = 4.0;
// A draft of a tree that was not tried yet is taken to be right so often, of the times that the one
// before it is.
constexpr double kNextRank = 0.75;
// What a verification leaves of the weight of those before it.
constexpr double kFadesOne = 0.95;
constexpr double kFadesAll = 0.98;
constexpr double kTrialShare = 0.01;
// Chances that are told apart.
constexpr double kLikelihoods = 8.0;
// A trial that took longer, in steps without drafts, was interrupted by something else.
constexpr double kDearestTrial = 4.0;
// A trial of a model's drafts is not expected to take longer, in the same.
constexpr double kDearestAhead = 0.9;
// A step without drafts is measured again after so many with; sooner where a machine that others
// use as well may pretend the gain.
constexpr double kLargeGain = 1.5;
constexpr int64_t kPlainOften = 16;
constexpr int64_t kPlainEvery = 128;
// And so often before there are any: all gains are relative to it.
constexpr int64_t kPlainFirst = 4;
// A step has at most twice as many drafts as the one before it, and so many more: one time that was
// measured wrongly does not make a step several times as long.
constexpr size_t kFirstDrafts = 4;
// The gain is looked for until so many further drafts made it smaller.
constexpr size_t kLooksFurther = 16;

void add(DraftHistory& history, double fades, int32_t num_accepted, bool refused) {
    history.recently_right = fades * history.recently_right + num_accepted;
    history.recently_wrong = fades * history.recently_wrong + (refused ? 1.0 : 0.0);
}

}  // namespace

double DraftLengths::chance(const DraftHistory& history) const {
    const double of_all = (all_.recently_right + kFirstChance * kWeightOfFirst) /
                          (all_.recently_right + all_.recently_wrong + kWeightOfFirst);
    return (history.recently_right + of_all * kWeightOfAll) /
           (history.recently_right + history.recently_wrong + kWeightOfAll);
}

void DraftLengths::count(DraftHistory& history, int32_t num_drafted, int32_t num_accepted) {
    history.num_drafted += num_drafted;
    history.num_accepted += num_accepted;
    add(history, kFadesOne, num_accepted, num_accepted < num_drafted);
    add(all_, kFadesAll, num_accepted, num_accepted < num_drafted);
}

std::vector<double> DraftLengths::rank_chances(int32_t count) const {
    std::vector<double> chances;
    double before = kFirstChance / kNextRank;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const Rank rank = i < ranks_.size() ? ranks_[i] : Rank{};
        const double expected = before * kNextRank;
        const double chance =
            (rank.right + expected * kWeightOfFirst) / (rank.tried + kWeightOfFirst);
        before = i == 0 ? chance : std::min(before, chance);
        chances.push_back(before);
    }
    return chances;
}

void DraftLengths::count_tree(DraftHistory& history, int32_t num_drafted,
                              std::span<const int32_t> rows) {
    const std::vector<double> chances = rank_chances(num_drafted);
    ranks_.resize(std::max(ranks_.size(), chances.size()));
    for (size_t i = 0; i < chances.size(); ++i) {
        const bool is_right = std::ranges::find(rows, static_cast<int32_t>(i) + 1) != rows.end();
        ranks_[i].tried = kFadesAll * ranks_[i].tried + 1.0;
        ranks_[i].right = kFadesAll * ranks_[i].right + (is_right ? 1.0 : 0.0);
    }
    const auto num_right = static_cast<int32_t>(rows.size());
    history.num_drafted += num_drafted;
    history.num_accepted += num_right;
    history.recently_right = kFadesOne * history.recently_right + num_right;
    history.recently_expected =
        std::accumulate(chances.begin(), chances.end(), kFadesOne * history.recently_expected);
}

void DraftLengths::observe(int32_t num_tokens, int32_t num_drafts, double step_ms,
                           const Drafting& drafting) {
    num_last_ = static_cast<size_t>(num_drafts);
    const double own_ms = step_ms - drafting.ms;
    const double plain_ms = times_.estimate(num_tokens - num_drafts).value_or(own_ms);
    times_.observe(num_tokens, own_ms);
    if (drafting.num_drafts > 0) draft_times_.observe(drafting.num_drafts, drafting.ms);
    trial_ms_ = std::min(trial_ms_ + kTrialShare * step_ms, plain_ms);
    if (trial_base_ms_ && num_drafts > 0) {
        const double spent_ms = own_ms + drafted_ms_ - *trial_base_ms_;
        trial_ms_ -= std::clamp(spent_ms, 0.0, kDearestTrial * plain_ms);
    }
    // A model that only caught up proposed nothing, so that nothing will be verified.
    if (drafting.num_drafts == 0) {
        trial_ms_ -= std::clamp(drafting.ms, 0.0, kDearestTrial * plain_ms);
    }
    trial_base_ms_ = std::exchange(next_trial_base_ms_, std::nullopt);
    drafted_ms_ = drafting.ms;
}

// More tokens never take less time, whatever single measurements say.
double DraftLengths::time_with(int32_t num_tokens, size_t num_drafts, double plain_ms) const {
    const auto count = static_cast<int32_t>(num_drafts);
    const double own_ms =
        std::max(plain_ms, times_.estimate(num_tokens + count).value_or(plain_ms));
    if (!is_ahead_ || count == 0) return own_ms;
    return own_ms + draft_times_.estimate(count).value_or(0.0);
}

void DraftLengths::list_tree_offers(std::span<const DraftCandidate> candidates) {
    int32_t most = 0;
    for (const DraftCandidate& candidate : candidates) most = std::max(most, candidate.most);
    const std::vector<double> chances = rank_chances(most);
    for (uint32_t i = 0; i < candidates.size(); ++i) {
        const DraftHistory& history = *candidates[i].history;
        const double better =
            (history.recently_right + kWeightOfAll) / (history.recently_expected + kWeightOfAll);
        for (int32_t draft = 0; draft < candidates[i].most; ++draft) {
            offers_.push_back({std::min(1.0, better * chances[static_cast<size_t>(draft)]), i,
                               history.num_accepted + draft});
        }
    }
}

// Likeliest first. Every draft of a sequence is less likely than the one before it. A few sequences
// that were lucky would else get all drafts, and the others be all that is left of a batch.
void DraftLengths::list_offers(std::span<const DraftCandidate> candidates) {
    offers_.clear();
    if (is_tree_) list_tree_offers(candidates);
    for (uint32_t i = 0; i < candidates.size() && !is_tree_; ++i) {
        const double each = chance(*candidates[i].history);
        double chance = 1.0;
        for (int32_t draft = 0; draft < candidates[i].most; ++draft) {
            chance *= each;
            offers_.push_back({chance, i, candidates[i].history->num_accepted + draft});
        }
    }
    std::ranges::stable_sort(offers_, {}, [](const Offer& offer) {
        return std::pair(-std::lround(offer.chance * kLikelihoods), offer.ahead);
    });
}

DraftLengths::Best DraftLengths::find_best(int32_t num_tokens, double plain_ms) const {
    Best best;
    const auto base = static_cast<double>(num_tokens);
    double made = base;
    double step_ms = plain_ms;
    for (size_t count = 1; count <= offers_.size(); ++count) {
        made += offers_[count - 1].chance;
        step_ms = std::max(step_ms, time_with(num_tokens, count, plain_ms));
        const double gain = made / base * plain_ms / step_ms;
        if (gain > best.gain) best = {count, gain};
        if (count > best.num_drafts + kLooksFurther) break;
    }
    return best;
}

// Twice as many as are best, if there is time for trials. The further ones are of other sequences
// each time: the likeliest may have nothing to propose.
void DraftLengths::add_trial(std::span<DraftCandidate> candidates, size_t chosen, size_t best,
                             int32_t num_tokens, double plain_ms) {
    const size_t count = std::min(std::max<size_t>(1, 2 * best), offers_.size());
    const double chosen_ms = time_with(num_tokens, chosen, plain_ms);
    double trial_ms = time_with(num_tokens, count, plain_ms) - chosen_ms;
    // A model's first drafts may have taken long: they are tried again when there is time for a
    // step, and what they take is counted then.
    if (is_ahead_) trial_ms = std::min(trial_ms, kDearestAhead * plain_ms);
    // With all saved that can be, a size is tried however long it seems: one slow step must not
    // keep it from being measured again.
    if (trial_ms >= trial_ms_ && trial_ms_ < plain_ms) return;
    (is_ahead_ ? next_trial_base_ms_ : trial_base_ms_) = chosen_ms;
    size_t left = count - chosen;
    for (size_t i = 0; i < candidates.size() && left > 0; ++i) {
        DraftCandidate& candidate = candidates[next_trial_++ % candidates.size()];
        const auto room = static_cast<size_t>(candidate.most - candidate.length);
        const size_t given = std::min({room, left, std::max<size_t>(1, count / 8)});
        candidate.length += static_cast<int32_t>(given);
        left -= given;
    }
}

void DraftLengths::choose(std::span<DraftCandidate> candidates, int32_t num_tokens) {
    (is_ahead_ ? next_trial_base_ms_ : trial_base_ms_).reset();
    for (DraftCandidate& candidate : candidates) candidate.length = 0;
    const std::optional<int64_t> age = times_.age(num_tokens);
    if (candidates.empty() || !age || times_.count(num_tokens) < kPlainFirst) return;
    const double plain_ms = *times_.estimate(num_tokens);
    list_offers(candidates);
    const Best best = find_best(num_tokens, plain_ms);
    if (*age >= (best.gain < kLargeGain ? kPlainOften : kPlainEvery)) return;
    const size_t chosen =
        best.gain < kLeastGain ? 0 : std::min(best.num_drafts, 2 * num_last_ + kFirstDrafts);
    for (size_t i = 0; i < chosen; ++i) ++candidates[offers_[i].candidate].length;
    add_trial(candidates, chosen, best.num_drafts, num_tokens, plain_ms);
}

}  // namespace nvllm
