// What became of a sequence's drafts.
#pragma once

#include <cstdint>

namespace nvllm {

struct DraftHistory {
    int32_t num_drafted = 0;   // tokens, in all
    int32_t num_accepted = 0;  // of those
    // The same with old ones counting less: drafts that were right, and steps that refused one.
    double recently_right = 0.0;
    double recently_wrong = 0.0;
    // Of trees: drafts that would have been right if the sequence were as others are.
    double recently_expected = 0.0;
};

}  // namespace nvllm
