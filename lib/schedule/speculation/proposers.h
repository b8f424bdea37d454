// The table of methods that propose drafts without a model. A further method is a file and a row.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lib/schedule/planning/draft_proposer.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

struct DraftProposerMethod {
    const char* name;
    const char* summary;  // where its drafts come from
    std::unique_ptr<DraftProposer> (*make)(const SpeculationConfig& config);
};

std::span<const DraftProposerMethod> draft_methods();
// Throws bad_config, with the names there are, if the name is unknown.
const DraftProposerMethod& find_draft_method(const std::string& name);

}  // namespace nvllm
