// The table of draft methods that compute. A further method is a file and a row.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "lib/checkpoint/model_config.h"
#include "lib/execute/propose/model_proposer.h"
#include "lib/execute/propose/proposer_setup.h"

namespace nvllm {

// Whether weights have values, or are read from headers for the plan of memory.
enum class ProposerUse : uint8_t { plans, runs };

struct ProposerMethod {
    const char* name;  // as --speculative-config has it
    const char* summary;
    bool is_of_target;   // its weights are in the target's checkpoint
    bool has_own_texts;  // a model by itself, whose vocabulary must be the target's
    // Throws not_found or bad_data: for files that are not the method's, or do not fit the target.
    std::unique_ptr<ModelProposer> (*make)(const ProposerSetup& setup, const ModelConfig& target,
                                           ProposerUse use);
};

std::span<const ProposerMethod> proposer_methods();
// Null if there is none of this name.
const ProposerMethod* find_proposer_method(const std::string& name);
// REQUIRES: setup.method is a row; setup.model.threads when it runs.
std::unique_ptr<ModelProposer> make_proposer(const ProposerSetup& setup, const ModelConfig& target,
                                             ProposerUse use);

// The method of the draft model or head in a directory. Throws not_found, or bad_data for a head in
// a layout that is not read.
std::string proposer_method_of(const std::filesystem::path& directory);

}  // namespace nvllm
