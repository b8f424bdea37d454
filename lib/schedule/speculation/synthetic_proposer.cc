// Texts by their prompts, and a counted random number of each position.
#include "lib/schedule/speculation/synthetic_proposer.h"

#include <algorithm>
#include <span>

#include "lib/base/random.h"

namespace nvllm {
namespace {

// Tokens that are remembered; what comes later is not.
constexpr size_t kMostTokens = size_t{1} << 24;

uint64_t hash_of_prompt(const Sequence& sequence) {
    const auto length = static_cast<size_t>(sequence.num_prompt_tokens);
    uint64_t hash = length;
    for (const int32_t token : std::span(sequence.token_ids).first(length)) {
        hash = mixed_bits(hash ^ static_cast<uint32_t>(token));
    }
    return hash;
}

double point_of(uint64_t prompt, size_t position) {
    const uint64_t bits = mixed_bits(prompt ^ mixed_bits(position));
    return unit_interval(static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits));
}

int32_t another_than(int32_t token) { return token > 0 ? token - 1 : 1; }

}  // namespace

DraftTokens SyntheticProposer::propose(const Sequence& sequence, const std::string&) {
    DraftTokens drafts;
    const uint64_t prompt = hash_of_prompt(sequence);
    const auto found = texts_.find(prompt);
    if (found == texts_.end()) return drafts;
    const std::vector<int32_t>& text = found->second;
    const std::vector<int32_t>& known = sequence.token_ids;
    if (known.size() > text.size() ||
        !std::ranges::equal(known, std::span(text).first(known.size())))
        return drafts;
    const size_t end = std::min(text.size(), known.size() + static_cast<size_t>(num_drafts_));
    for (size_t position = known.size(); position < end; ++position) {
        const bool is_right = point_of(prompt, position) < acceptance_;
        drafts.token_ids.push_back(is_right ? text[position] : another_than(text[position]));
    }
    return drafts;
}

void SyntheticProposer::learn(const Sequence& sequence, const std::string&) {
    const std::vector<int32_t>& text = sequence.token_ids;
    if (num_tokens_ + text.size() > kMostTokens) return;
    std::vector<int32_t>& kept = texts_[hash_of_prompt(sequence)];
    if (kept.size() > text.size()) return;
    num_tokens_ += text.size() - kept.size();
    kept = text;
}

}  // namespace nvllm
