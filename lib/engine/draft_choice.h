// Which model or head proposes tokens to an engine's model, and what is known of it before a weight
// is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "lib/engine/engine_config.h"
#include "lib/execute/memory_budget.h"
#include "lib/execute/propose/proposer_methods.h"
#include "lib/model/loader.h"
#include "lib/schedule/speculation/speculation_config.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

struct DraftChoice {
    SpeculationConfig speculation;
    ProposerSetup setup;                      // not enabled where no model proposes
    std::shared_ptr<ModelProposer> proposer;  // weights without values; null alike
    // Of a model with states: sequences whose states can be tried with drafts in a step.
    int32_t num_states = 0;
};

// What the options ask for. `target`: the options its model is loaded with. Throws usage for what
// cannot be together, not_found or bad_data for files that are no draft model or head, or none for
// this model.
DraftChoice choose_drafts(const EngineConfig& config, const ModelLoadOptions& target,
                          const ModelMetadata& model);

// Of each cache group of the model, the bytes that the draft's layers take of a token; empty: there
// are none.
std::vector<int64_t> draft_bytes_per_token(const DraftChoice& drafts, const ModelMetadata& model,
                                           DType kv_dtype);
// Adds what drafts take to a request that has all else: weights, scratch, further blocks and slots.
void add_drafts(const DraftChoice& drafts, const ModelMetadata& model, MemoryRequest& request);

// Throws bad_data unless the tokens of a draft model are those of `target`, where both know them.
void check_vocabulary(const DraftChoice& drafts, const Tokenizer& target,
                      const std::filesystem::path& target_directory);

}  // namespace nvllm
