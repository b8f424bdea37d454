// States of sequences with drafts: kept as they are before a step, and taken back behind it to
// where the accepted drafts end.
//
// They are kept in slots that belong to no sequence, behind those of the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/execute/batch_builder.h"
#include "lib/execute/kv_storage.h"
#include "lib/execute/worker_config.h"
#include "lib/model/model.h"
#include "lib/model/state_journal.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

// Whether sequences have states in one of the groups.
bool have_states(std::span<const CacheLayout> groups);

class DraftStates {
  public:
    // `first_slots`: by cache group, the first of config.num_draft_states in addition that `kv`
    // has. `kv` outlives it.
    DraftStates(Model& model, const WorkerConfig& config, std::vector<int32_t> first_slots,
                KvStorage& kv, const ComputeDevice& device);

    // Before the pass over `rows`, the first of which are those of the plan's entries: what it is
    // to note of states; null: nothing. REQUIRES: no step is open; at most config.num_draft_states
    // rows have drafts, and these are chains.
    StateJournal* begin(const Context& context, std::span<const BatchRow> rows);
    // Whether the step that was begun last has drafts and is not settled.
    bool is_open() const { return !drafted_.empty(); }
    // When that step's tokens are chosen. REQUIRES: nothing was computed since.
    void settle(const Context& context, const StepResult& result);
    // No step is at hand.
    void clear() { drafted_.clear(); }

    // Of what is noted in the largest step with drafts. The model's weights may have no values.
    static size_t journal_bytes(Model& model, const WorkerConfig& config,
                                const ComputeDevice& device);

  private:
    struct Drafted {
        size_t entry = 0;
        int32_t num_rows = 0;
        int32_t num_drafts = 0;
        std::vector<int32_t> slots;  // by cache group
    };
    enum class Way : uint8_t { out, back };
    // Between the slots of the `index`-th sequence with drafts and those that are in addition.
    void copy_states(const Context& context, size_t index, Way way) const;

    std::vector<size_t> state_groups_;
    int32_t num_slots_;
    std::vector<int32_t> first_slots_;
    KvStorage& kv_;
    StateJournal journal_;
    std::vector<Drafted> drafted_;  // of the step at hand
};

}  // namespace nvllm
