// Which model proposes tokens to the worker's model, and how: plain data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lib/model/drafts/draft_head.h"
#include "lib/model/loader.h"

namespace nvllm {

// How far ahead drafts go, and how many of each level get further ones (DraftTree); of width 1 they
// are a chain.
struct DraftShape {
    int32_t depth = 0;
    int32_t width = 1;

    // Drafts of a sequence that are computed in a step, at most.
    int32_t num_rows() const { return depth * width; }
};

struct ProposerSetup {
    std::string method;  // a row of proposer_methods.h; empty: none proposes
    // Of the draft model, or of the head's directory; `threads` as in WorkerSetup.
    ModelLoadOptions model;
    std::filesystem::path target_directory;
    DraftShape shape;
    DraftReading reading;  // of a head

    bool enabled() const { return !method.empty(); }
};

}  // namespace nvllm
