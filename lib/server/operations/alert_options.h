// Options on what the log warns of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct AlertOptions {
    std::vector<std::string> rules;     // "METRIC OP NUMBER"
    std::optional<double> temperature;  // of a device, in degrees Celsius
};

OptionList<AlertOptions> alert_options();

}  // namespace nvllm::server
