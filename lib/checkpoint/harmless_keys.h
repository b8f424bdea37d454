// Keys of config.json that change no output, and those of a file that nothing reads and that are
// not among them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/base/unused_keys.h"
#include "lib/checkpoint/family_defaults.h"

namespace nvllm {

// The keys of a text part's own object, ascending, that are neither among `asked`, nor harmless.
// What was asked for and is no key of the family counts as not used.
std::vector<std::string> unused_config_keys(const nlohmann::json& object, const KeySet& asked,
                                            const FamilyDefaults& family, FamilyTable families);

// The same of rope_scaling or rope_parameters.
std::vector<std::string> unused_rope_keys(const nlohmann::json& object, const KeySet& asked,
                                          const FamilyDefaults& family);

}  // namespace nvllm
