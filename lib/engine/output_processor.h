// From sampled tokens to text that is safe to show: detokenization, stop strings, stop decisions by
// text.
//
// Owned by the engine thread. One entry per request from its start to its last output.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/engine/stop_matcher.h"
#include "lib/request/beam_search.h"
#include "lib/request/request_output.h"
#include "lib/request/sequence.h"
#include "lib/tokenizer/detokenizer.h"

namespace nvllm {

class OutputProcessor {
  public:
    explicit OutputProcessor(std::shared_ptr<const Tokenizer> tokenizer);

    // A request with its choices, in the order of their indices.
    void add(const Request& request, std::span<const SequenceId> sequences);

    // The sequence was admitted, with this many tokens found in the prefix cache; only a request's
    // first time counts.
    void admitted(const Sequence& sequence, double now_s);

    // A step computes the sequence up to this position.
    void planned(SequenceId sequence, int32_t end);

    // Takes the step's accepted tokens of a sequence, searches for stop strings and makes the
    // decision stricter if it finds one. New text goes to the request's pending output.
    void check_stop(const SequenceStep& step, StopDecision& decision, double now_s);

    // A beam search is over: its hypotheses, best first, become the request's choices.
    void finish_beams(RequestId request, std::span<const BeamHypothesis> hypotheses);

    // Ends a sequence that gets no further step (cancelled, failed).
    void finish(SequenceId sequence, FinishReason reason, std::optional<Fault> fault = {});

    // The pending output of the request that has this sequence, with `finished` set when all its
    // choices have ended, and the request then forgotten. Nothing when there is nothing new.
    std::optional<RequestOutput> take(RequestId request, double now_s);

    // The unfinished sequences of a request.
    std::vector<SequenceId> active(RequestId request) const;
    std::optional<RequestId> request_of(SequenceId sequence) const;

  private:
    struct Choice {
        SequenceId sequence = 0;
        std::optional<Detokenizer> detokenizer;
        std::string text;    // all of it, up to a stop
        size_t emitted = 0;  // bytes of text given out
        int32_t num_tokens = 0;
        std::optional<double> sum_of_logprobs;
        bool finished = false;
        ContinuationOutput pending;
        bool has_pending = false;
    };
    struct Entry {
        SamplingParams sampling;
        StopMatcher stops;
        std::vector<Choice> choices;
        int32_t num_prompt_tokens = 0;
        int32_t num_active = 0;
        int32_t num_cached_tokens = 0;
        int32_t num_without_state = 0;
        std::optional<AdapterTier> adapter_tier;
        int32_t num_computed_prompt_tokens = 0;
        bool hides_logprobs = false;
        bool wants_progress = false;
        bool has_progress = false;  // since the last output
        RequestTimes times;
        std::vector<SampledLogprobs> prompt_logprobs;  // not given out yet
        int32_t num_prompt_logprobs = 0;               // in all
        std::vector<float> embedding;                  // not given out yet
    };

    Choice* find(SequenceId sequence, Entry*& entry);
    static void take_prompt_logprobs(const SequenceStep& step, Entry& entry);
    // Choices given out one by one as they grow, and not only the best of all at the end.
    static bool streams(const Entry& entry);
    static void keep_best(Entry& entry);
    static void note_progress(Entry& entry, int32_t num_computed_prompt_tokens);
    void append_tokens(const SequenceStep& step, StopDecision& decision, Entry& entry,
                       Choice& choice);
    static void append_token(const SequenceStep& step, size_t index, bool shows_text,
                             const Entry& entry, Choice& choice);
    bool match_stops(Entry& entry, Choice& choice, size_t searched, StopDecision& decision);
    void end(Entry& entry, Choice& choice, FinishReason reason);
    static void emit(Choice& choice, size_t safe_length);

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::unordered_map<RequestId, Entry> entries_;
    std::unordered_map<SequenceId, std::pair<RequestId, size_t>> places_;
};

}  // namespace nvllm
