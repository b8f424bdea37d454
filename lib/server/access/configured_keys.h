// The API keys that a configuration names.
#pragma once

#include <vector>

#include "lib/server/access/api_keys.h"
#include "lib/server/access/key_options.h"

namespace nvllm::server {

// The keys of the key file and of --api-key. Throws usage for an empty key, bad_config with file
// and line for a file that cannot be read.
std::vector<ApiKey> configured_keys(const KeyOptions& options);

}  // namespace nvllm::server
