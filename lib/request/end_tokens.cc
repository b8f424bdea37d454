// Stop ids of the request and end tokens of the model.
#include "lib/request/end_tokens.h"

#include <algorithm>

namespace nvllm {

std::vector<int32_t> end_token_ids(const SamplingParams& params,
                                   std::span<const int32_t> eos_token_ids) {
    std::vector<int32_t> ids = params.stop_token_ids;
    if (!params.ignore_eos) ids.insert(ids.end(), eos_token_ids.begin(), eos_token_ids.end());
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

}  // namespace nvllm
