// The flags of sampling parameters, by the list of their fields.
#pragma once

#include <set>
#include <string>

#include "lib/cli/option_list.h"
#include "lib/request/sampling_params.h"

namespace nvllm {

// The sampling parameters of a command line. Flags that were not given leave the model's own
// defaults (generation_config.json) in force.
struct SamplingFlags {
    SamplingParams params;
    std::set<std::string> given;  // names of flags

    // `defaults` with the given values; biases are added to those of the defaults.
    SamplingParams over(SamplingParams defaults) const;
};

OptionList<SamplingFlags> sampling_options();

}  // namespace nvllm
