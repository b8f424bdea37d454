// How many drafts the sequences of a step get, so that it makes the most tokens in its time.
//
// A step of b sequences makes b tokens, and of a sequence with k drafts a + a^2 + ... + a^k more,
// where a is how often its drafts were right. The drafts that are likeliest right come first, of
// those that are about as likely the ones of sequences that drafts have helped least, as many as
// give the most tokens a millisecond by the times of steps (StepTimes). Without a gain of a
// few percent there are none: under load, and for texts that cannot be guessed.
//
// Drafts of a tree come most confident first. How often the first of them was right, the second,
// and so on, is counted over all sequences, and how much better or worse a sequence's were than
// that: so many more tokens does one draft more make, because the first k of a tree are a tree.
//
// Chances and times change only when drafts are tried, so some are tried that are not expected to
// pay: their time is at most a hundredth of all.
//
// Drafts of a model take time themselves, in the step before the one that verifies them. Their
// lengths are chosen a step ahead, and that time counts as part of the step that they are for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/schedule/speculation/step_times.h"
#include "lib/schedule/state/draft_history.h"

namespace nvllm {

// A sequence of a step that may have drafts.
struct DraftCandidate {
    const DraftHistory* history = nullptr;
    int32_t most = 0;    // drafts it may have
    int32_t length = 0;  // how many it gets
};

// Drafts that a step's worker proposed for the next step, and the part of its time that they took.
struct Drafting {
    int32_t num_drafts = 0;
    double ms = 0.0;
};

class DraftLengths {
  public:
    // `is_ahead`: lengths are chosen for the step after the one that is planned. `is_tree`: drafts
    // are no chains.
    explicit DraftLengths(int32_t free_rows, bool is_ahead = false, bool is_tree = false)
        : times_(free_rows), is_ahead_(is_ahead), is_tree_(is_tree) {}

    // Sets the lengths. `num_tokens`: of the step without drafts, one of each sequence.
    void choose(std::span<DraftCandidate> candidates, int32_t num_tokens);
    // A step verified drafts of a sequence.
    void count(DraftHistory& history, int32_t num_drafted, int32_t num_accepted);
    // The same of a tree. `rows`: accepted ones, as DraftTokens counts them.
    void count_tree(DraftHistory& history, int32_t num_drafted, std::span<const int32_t> rows);
    // A step without prompts is done; `num_drafts` of its tokens were drafts.
    void observe(int32_t num_tokens, int32_t num_drafts, double step_ms,
                 const Drafting& drafting = {});

    // The chance that the next draft of the sequence is right, as far as is known.
    double chance(const DraftHistory& history) const;
    // Of each of the first `count` drafts of a tree, that it is right in a usual sequence.
    std::vector<double> rank_chances(int32_t count) const;

  private:
    // A draft by its place among the most confident ones of its tree.
    struct Rank {
        double right = 0.0;
        double tried = 0.0;
    };
    struct Offer {
        double chance;  // that it is accepted, with all before it
        uint32_t candidate;
        int32_t ahead;  // drafts of the sequence that were accepted or come before it
    };
    struct Best {
        size_t num_drafts = 0;
        double gain = 1.0;  // tokens a millisecond, relative to a step without drafts
    };
    // Of a step of `num_tokens` without drafts that verifies so many, which are proposed before.
    double time_with(int32_t num_tokens, size_t num_drafts, double plain_ms) const;
    void list_offers(std::span<const DraftCandidate> candidates);
    void list_tree_offers(std::span<const DraftCandidate> candidates);
    Best find_best(int32_t num_tokens, double plain_ms) const;
    void add_trial(std::span<DraftCandidate> candidates, size_t chosen, size_t best,
                   int32_t num_tokens, double plain_ms);

    StepTimes times_;
    bool is_ahead_;
    bool is_tree_;
    std::vector<Rank> ranks_;
    StepTimes draft_times_{1};             // of so many drafts of a model
    DraftHistory all_;                     // of every sequence
    double trial_ms_ = 0.0;                // that trials may take now; below 0: some took longer
    size_t num_last_ = 0;                  // drafts of the last step
    size_t next_trial_ = 0;                // the candidates take turns
    std::optional<double> trial_base_ms_;  // of the step that was chosen last, without its trial
    // Chosen ahead: the same of the step after that, and what its drafts took before it.
    std::optional<double> next_trial_base_ms_;
    double drafted_ms_ = 0.0;
    std::vector<Offer> offers_;
};

}  // namespace nvllm
