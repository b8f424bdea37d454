// Which model proposes tokens to the worker's model, and how: plain data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lib/model/drafts/draft_head.h"
#include "lib/model/loader.h"

namespace nvllm {

struct ProposerSetup {
    std::string method;  // a row of proposer_methods.h; empty: none proposes
    // Of the draft model, or of the head's directory; `threads` as in WorkerSetup.
    ModelLoadOptions model;
    std::filesystem::path target_directory;
    int32_t num_drafts = 0;  // of a sequence in a step, at most
    DraftReading reading;    // of a head

    bool enabled() const { return !method.empty(); }
};

}  // namespace nvllm
