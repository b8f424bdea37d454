// Whether a sequence continues after its new tokens, by ids and lengths only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/request/request.h"
#include "lib/request/sequence.h"
#include "lib/request/step_result.h"

namespace nvllm {

// Accepts the tokens of a step up to and with the one that ends the sequence: an end token or a
// stop id, from the min_tokens-th on; the max_tokens-th; the last one of the context. With drafts a
// step has several tokens.
StopDecision check_tokens(const Sequence& sequence, const Request& request, int32_t max_model_len,
                          std::span<const int32_t> token_ids);

}  // namespace nvllm
