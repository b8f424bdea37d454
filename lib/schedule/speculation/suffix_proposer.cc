// A ring of tokens with chains of equal hashes, and the vote of the longest matches.
#include "lib/schedule/speculation/suffix_proposer.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "lib/schedule/speculation/ngram_proposer.h"

namespace nvllm {
namespace {

constexpr int32_t kBetween = -1;
// Longer matches say no more.
constexpr int32_t kLongestMatch = 32;
// Places that are looked at, the latest first.
constexpr int kMostPlaces = 64;
// Of the matches, the share that must agree with all tokens proposed.
constexpr double kLeastShare = 0.25;
// The end of the prompt, by which the beginning of the same answer is found.
constexpr int32_t kPromptTokens = 16;

uint64_t salt_of(const std::string& cache_salt) { return std::hash<std::string>{}(cache_salt); }

}  // namespace

SuffixIndex::SuffixIndex(int32_t capacity, int32_t order)
    : capacity_(std::bit_ceil(static_cast<size_t>(capacity))), order_(static_cast<size_t>(order)) {}

size_t SuffixIndex::bucket_of(std::span<const int32_t> tokens, uint64_t salt) const {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
    uint64_t hash = salt;
    for (const int32_t token : tokens.last(order_)) {
        hash = (hash ^ static_cast<uint32_t>(token)) * kFactor;
        hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash) & (latest_.size() - 1);
}

void SuffixIndex::add(std::span<const int32_t> text, uint64_t salt) {
    if (text.size() < order_) return;
    if (tokens_.empty()) {
        tokens_.assign(capacity_, kBetween);
        salts_.assign(capacity_, 0);
        previous_.assign(capacity_, -1);
        latest_.assign(capacity_, -1);
    }
    const auto append = [&](int32_t token) {
        tokens_[place(end_)] = token;
        salts_[place(end_)] = salt;
        previous_[place(end_)] = -1;
        ++end_;
    };
    // Of a text that is longer than the memory, the end.
    text = text.last(std::min(text.size(), capacity_ - 1));
    append(kBetween);
    for (size_t i = 0; i < text.size(); ++i) {
        append(text[i]);
        if (i + 1 < order_) continue;
        int64_t& latest = latest_[bucket_of(text.first(i + 1), salt)];
        previous_[place(end_ - 1)] = latest;
        latest = end_ - 1;
    }
}

int32_t SuffixIndex::match_length(std::span<const int32_t> text, int64_t last) const {
    const size_t most = std::min(text.size(), static_cast<size_t>(kLongestMatch));
    size_t length = 0;
    while (length < most) {
        const int64_t position = last - static_cast<int64_t>(length);
        if (!is_kept(position) || tokens_[place(position)] != text[text.size() - 1 - length]) break;
        ++length;
    }
    return static_cast<int32_t>(length);
}

void SuffixIndex::list_longest(std::span<const int32_t> text, uint64_t salt, Found& found) {
    matches_.clear();
    int64_t position = latest_[bucket_of(text, salt)];
    for (int i = 0; i < kMostPlaces && is_kept(position); ++i) {
        const int64_t place_of_match = position;
        position = previous_[place(position)];
        if (salts_[place(place_of_match)] != salt) continue;
        const int32_t length = match_length(text, place_of_match);
        if (length < static_cast<int32_t>(order_) || length < found.length) continue;
        if (length > found.length) matches_.clear();
        found.length = length;
        matches_.push_back(place_of_match);
    }
}

// Those that disagree with a token that was proposed vote no more. Of equal votes the latest
// counts.
void SuffixIndex::vote(int32_t count, Found& found) {
    const auto num_matches = static_cast<double>(matches_.size());
    for (int64_t step = 1; step <= count; ++step) {
        const auto next = [&](int64_t match) {
            return match + step < end_ ? tokens_[place(match + step)] : kBetween;
        };
        std::ptrdiff_t most = 0;
        int32_t chosen = kBetween;
        for (const int64_t match : matches_) {
            const int32_t token = next(match);
            if (token == kBetween) continue;
            const auto votes = std::ranges::count_if(
                matches_, [&](int64_t other) { return next(other) == token; });
            if (votes > most) {
                most = votes;
                chosen = token;
            }
        }
        if (chosen == kBetween || static_cast<double>(most) < kLeastShare * num_matches) return;
        std::erase_if(matches_, [&](int64_t match) { return next(match) != chosen; });
        found.next.push_back(chosen);
    }
}

SuffixIndex::Found SuffixIndex::find(std::span<const int32_t> text, uint64_t salt, int32_t count) {
    Found found;
    if (tokens_.empty() || text.size() < order_) return found;
    list_longest(text, salt, found);
    vote(count, found);
    return found;
}

SuffixProposer::SuffixProposer(const SpeculationConfig& config)
    : num_drafts_(config.num_speculative_tokens),
      least_(config.prompt_lookup_min),
      index_(config.suffix_cached_tokens, config.prompt_lookup_min) {}

DraftTokens SuffixProposer::propose(const Sequence& sequence, const std::string& cache_salt) {
    const std::span<const int32_t> text = sequence.token_ids;
    const EarlierMatch own = find_earlier(text, least_, kLongestMatch);
    SuffixIndex::Found past = index_.find(text, salt_of(cache_salt), num_drafts_);
    if (past.next.empty() || own.length >= past.length) return copy_on(text, own, num_drafts_);
    return {.token_ids = std::move(past.next), .parents = {}};
}

void SuffixProposer::learn(const Sequence& sequence, const std::string& cache_salt) {
    const int32_t first = std::max(0, sequence.num_prompt_tokens - kPromptTokens);
    index_.add(std::span(sequence.token_ids).subspan(static_cast<size_t>(first)),
               salt_of(cache_salt));
}

}  // namespace nvllm
