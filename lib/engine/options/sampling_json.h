// Sampling parameters of JSON requests, by the list of their fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "lib/request/sampling_params.h"

namespace nvllm {

// The names of all sampling fields, with their aliases.
std::vector<std::string_view> sampling_field_names();

// Reads the value of the field `name` into its member; null changes nothing. False if there is no
// such field. Values are checked by SamplingParams::check(). Throws json_values::WrongValue if the
// type is wrong. `bad_words` is read as texts by the caller: its tokens need a tokenizer.
bool read_sampling_field(std::string_view name, const nlohmann::ordered_json& value,
                         SamplingParams& sampling);

}  // namespace nvllm
