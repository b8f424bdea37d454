// Options on API keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/cli/option_list.h"

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

}  // namespace nvllm::server
