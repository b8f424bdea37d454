// Options on responses that are kept.
#pragma once

#include <cstdint>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct ResponseStoreOptions {
    int32_t max_stored_responses = 1000;  // 0: none are kept
    uint64_t max_stored_response_bytes = uint64_t{64} << 20;
};

OptionList<ResponseStoreOptions> response_store_options();

}  // namespace nvllm::server
