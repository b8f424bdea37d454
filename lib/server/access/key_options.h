// Options on API keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/cli/option_list.h"
#include "lib/server/access/api_keys.h"

namespace nvllm::server {

struct KeyOptions {
    std::vector<std::string> api_keys;
    std::filesystem::path api_key_file;
    bool allow_unauthenticated = false;
    std::string cache_isolation = "auto";  // of cached prompts: auto, none, key

    bool has_key() const { return !api_keys.empty() || !api_key_file.empty(); }
};

OptionList<KeyOptions> key_options();
OptionList<KeyOptions> cache_isolation_options();

// The keys of the key file and of --api-key. Throws usage for an empty key, bad_config with file
// and line for a file that cannot be read.
std::vector<ApiKey> configured_keys(const KeyOptions& options);

}  // namespace nvllm::server
