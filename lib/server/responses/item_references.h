// Items that a client names in place of sending them again.
//
// Include it only in .cc files: the JSON library comes with it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/server/responses/response_store.h"

namespace nvllm::server {

// Puts the items of kept responses of this owner in place of {"type": "item_reference", "id": ID}
// in "input"; the type may be absent. Other items, and what is no list, stay as they are. Faults
// (bad_data, code item_not_found) name the field: "input[2].id".
std::optional<Fault> resolve_item_references(nlohmann::ordered_json& input,
                                             const std::string& owner, ResponseStore& store);

}  // namespace nvllm::server
