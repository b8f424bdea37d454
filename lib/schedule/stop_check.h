// Whether a sequence goes on after its new tokens, by ids and lengths only.
#pragma once

#include <cstdint>
#include <span>

#include "lib/request/request.h"
#include "lib/request/sequence.h"
#include "lib/request/step_result.h"

namespace nvllm {

// Tokens are kept up to and with the one that ends the sequence: an end token of the model (unless
// ignored) or a stop id, from the min_tokens-th on; the max_tokens-th; the last one of the context.
StopDecision check_tokens(const Sequence& sequence, const Request& request, int32_t max_model_len,
                          std::span<const int32_t> token_ids);

}  // namespace nvllm
