// The check of a request against context and cache, and the order of the waiting.
#include "lib/schedule/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace nvllm {

int32_t longest_length(const SchedulerConfig& config, int32_t num_prompt_tokens,
                       const Request& request) {
    if (request.pooling) return num_prompt_tokens;
    const int32_t room = config.max_model_len - num_prompt_tokens;
    return num_prompt_tokens + std::min(room, request.sampling.max_tokens.value_or(room));
}

namespace {

// The last token of an answer is never computed.
int32_t num_positions(int32_t length, const Request& request) {
    return request.pooling ? length : length - 1;
}

}  // namespace

int32_t rope_choice(const SchedulerConfig& config, int32_t length, const Request& request) {
    const int32_t original = config.original_context;
    return original > 0 && num_positions(length, request) <= original ? 1 : 0;
}

int32_t most_blocks(const SchedulerConfig& config, const CacheManager& cache, int32_t group,
                    int32_t length, const Request& request) {
    const int32_t each =
        cache.shape().max_blocks(group, num_positions(length, request), config.largest_step());
    const SamplingParams& sampling = request.sampling;
    return sampling.use_beam_search ? each * sampling.num_sequences() : each;
}

namespace {

std::optional<Fault> why_too_long(const SchedulerConfig& config, const Request& request) {
    const size_t num_prompt = request.prompt_token_ids.size();
    const size_t needed = num_prompt + (request.pooling ? 0 : 1);
    if (needed <= static_cast<size_t>(config.max_model_len)) return std::nullopt;
    return Fault{ErrorKind::bad_data,
                 fmt::format("the prompt has {} tokens and {} a context of {} tokens "
                             "(--max-model-len)",
                             num_prompt,
                             request.pooling ? "does not fit" : "leaves no room for an answer in",
                             config.max_model_len)};
}

}  // namespace

std::optional<Fault> why_never(const SchedulerConfig& config, const CacheManager& cache,
                               const Request& request) {
    if (request.prompt_token_ids.empty()) return Fault{ErrorKind::bad_data, "the prompt is empty"};
    if (std::optional<Fault> fault = why_too_long(config, request)) return fault;
    const size_t num_prompt = request.prompt_token_ids.size();
    for (const MediaKey& key : request.media_keys) {
        if (key.position >= 0 && static_cast<size_t>(key.position) < num_prompt) continue;
        return Fault{ErrorKind::bad_data,
                     fmt::format("a medium stands at position {} of a prompt of {} tokens",
                                 key.position, num_prompt)};
    }
    if (request.sampling.use_beam_search &&
        request.sampling.num_sequences() > config.max_num_seqs) {
        return Fault{ErrorKind::bad_data,
                     fmt::format("a beam search of width {} needs as many slots; there are {} "
                                 "(--max-num-seqs)",
                                 request.sampling.num_sequences(), config.max_num_seqs)};
    }
    const int32_t length = longest_length(config, static_cast<int32_t>(num_prompt), request);
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        const int32_t needed = most_blocks(config, cache, group, length, request);
        const int32_t total = cache.counts(group).total;
        if (needed <= total) continue;
        return Fault{
            ErrorKind::does_not_fit,
            fmt::format("{} prompt tokens and up to {} generated ones need {} cache blocks of {} "
                        "tokens, but there are {}: lower max_tokens, or give the cache more memory "
                        "(--kv-cache-memory-bytes)",
                        num_prompt, length - static_cast<int32_t>(num_prompt), needed,
                        cache.block_size(), total),
            "max_tokens", "context_length_exceeded"};
    }
    return std::nullopt;
}

namespace {

// Swapped out, or a beam that others wait for.
bool comes_back(const ScheduledSequence& scheduled) {
    const BeamGroup* beams = scheduled.request->beams.get();
    return scheduled.sequence.state == SequenceState::swapped ||
           (beams != nullptr && beams->beams.size() > 1);
}

}  // namespace

bool WaitingQueue::stands_before(const ScheduledSequence& one, const ScheduledSequence& other,
                                 double now_s) const {
    if (comes_back(one) != comes_back(other)) return comes_back(one);
    return ranks_before(policy_, one.sequence, other.sequence, now_s);
}

// Ranks are worked out once each, and from one step to the next hardly any changes its place.
void WaitingQueue::sort(double now_s) {
    if (!policy_.changes_while_waiting) return;
    struct Ranked {
        bool is_new;  // see stands_before()
        bool has_no_turn;
        double rank;
        ScheduledSequence* sequence;
    };
    const auto before = [](const Ranked& one, const Ranked& other) {
        const double rank = one.has_no_turn ? one.rank : 0.0;
        const double other_rank = other.has_no_turn ? other.rank : 0.0;
        return std::tuple(one.is_new, one.has_no_turn, rank, one.sequence->sequence.id) <
               std::tuple(other.is_new, other.has_no_turn, other_rank, other.sequence->sequence.id);
    };
    std::vector<Ranked> ranked;
    ranked.reserve(sequences_.size());
    for (ScheduledSequence* sequence : sequences_) {
        ranked.push_back({!comes_back(*sequence), !sequence->sequence.has_turn,
                          policy_.rank(sequence->sequence, now_s), sequence});
    }
    if (std::ranges::is_sorted(ranked, before)) return;
    std::ranges::sort(ranked, before);
    for (size_t place = 0; place < ranked.size(); ++place) {
        sequences_[place] = ranked[place].sequence;
    }
}

void WaitingQueue::add(ScheduledSequence& sequence, double now_s) {
    const auto before = [&](const ScheduledSequence* one, const ScheduledSequence* other) {
        return stands_before(*one, *other, now_s);
    };
    const auto place = std::upper_bound(sequences_.begin(), sequences_.end(), &sequence, before);
    sequences_.insert(place, &sequence);
}

void WaitingQueue::remove(const ScheduledSequence& sequence) {
    const auto place = std::find(sequences_.begin(), sequences_.end(), &sequence);
    if (place != sequences_.end()) sequences_.erase(place);
}

}  // namespace nvllm
