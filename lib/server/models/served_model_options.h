// Options that say which models are served.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct ServedModelOptions {
    std::vector<std::string> models;              // directories, or NAME=DIRECTORY
    std::vector<std::string> served_model_names;  // of a single model
    std::string backup_model;  // replaces a model whose weights keep producing non-finite numbers
};

OptionList<ServedModelOptions> served_model_options();

}  // namespace nvllm::server
