// Options on which requests are refused on sight of their heads.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct FilterOptions {
    bool metrics_without_key = false;
    std::vector<std::string> allowed_origins;  // patterns, as origins.h has them
    bool local_origins = true;                 // allows pages and programs of this machine
    std::vector<std::string> allowed_hosts;
    bool serves_page = true;        // the chat page
    bool changes_adapters = false;  // users may load and unload them
};

OptionList<FilterOptions> filter_options();

}  // namespace nvllm::server
