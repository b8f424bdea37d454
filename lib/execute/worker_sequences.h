// The sequences that a worker knows, with their tokens, block tables and sampling states.
//
// Plans carry differences: update() applies them, accept() appends the tokens of a finished step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/decode/pooling_state.h"
#include "lib/decode/sampling_state.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

class AdapterStore;

struct WorkerSequence {
    std::vector<int32_t> token_ids;                  // all that are known
    std::vector<std::vector<int32_t>> block_tables;  // per cache group
    SequenceSamplingState sampling;
    int32_t num_prompt_tokens = 0;
    int32_t rope_choice = 0;
    int32_t adapter = 0;  // AdapterRef::id
    std::optional<PoolingState> pooling;
    std::optional<Fault> refusal;    // why its entries produce nothing
    bool samples_on_device = false;  // its next tokens
    // Tokens that steps in flight choose, and the device's address of the last of them.
    int32_t num_expected = 0;
    const std::byte* expected_token = nullptr;

    // The first rows of an entry that predict a prompt token whose logprob is asked for. Only the
    // first sequence of a request reports them: the others have the same prompt.
    int32_t num_prompt_logprobs(const PlanEntry& entry) const;
    // Whether the device chooses the tokens of an entry that samples. Draft rows are chosen
    // together: that needs parameters under which a choice depends on no token before it.
    bool is_sampled_on_device(bool has_drafts) const;
};

class WorkerSequences {
  public:
    // `can_sample_on_device`: the device has the sampling ops. `adapters`: null where there are
    // none; else it outlives the sequences.
    WorkerSequences(size_t num_cache_groups, bool has_rope_choices, bool can_sample_on_device,
                    const AdapterStore* adapters = nullptr);

    // Removes, moves and adds sequences, and appends the entries' tokens and blocks, as the plan
    // says. REQUIRES: it names known sequences only.
    void update(const BatchPlan& plan);
    // Appends the chosen tokens. Skips sequences that were removed since.
    void accept(const StepResult& result);
    void clear() { sequences_.clear(); }

    // REQUIRES: the sequence is known.
    WorkerSequence& at(SequenceId sequence) { return sequences_.at(sequence); }
    const WorkerSequence& at(SequenceId sequence) const { return sequences_.at(sequence); }
    // Null when it is not.
    WorkerSequence* find(SequenceId sequence);

  private:
    void add(const AddedSequence& added);
    void append(const PlanEntry& entry);

    size_t num_cache_groups_;
    bool has_rope_choices_;
    bool can_sample_on_device_;
    const AdapterStore* adapters_;
    std::unordered_map<SequenceId, WorkerSequence> sequences_;
};

}  // namespace nvllm
