// Keys from the key file and from flags.
#include "lib/server/access/configured_keys.h"

#include <fmt/format.h>

#include "kernels/error.h"

namespace nvllm::server {

std::vector<ApiKey> configured_keys(const KeyOptions& options) {
    std::vector<ApiKey> keys;
    if (!options.api_key_file.empty()) keys = read_key_file(options.api_key_file);
    for (size_t i = 0; i < options.api_keys.size(); ++i) {
        const std::string& key = options.api_keys[i];
        if (key.empty()) throw Error(ErrorKind::usage, "--api-key: the key is empty");
        keys.push_back(make_key(fmt::format("api-key-{}", i + 1), key));
    }
    return keys;
}

}  // namespace nvllm::server
