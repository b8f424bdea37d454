// JSON schemas as the engine can hold an answer to them: what it would ignore is refused by name,
// and what it reads otherwise than the standard is put into words that it reads right.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/grammar/thread_time.h"

namespace nvllm {

// The schema to compile, as JSON. Faults (bad_data) name the keyword and where it is, as a JSON
// pointer: "#/properties/age/not". `end`: when it is refused
// because it takes too long.
Result<std::string> checked_schema(std::string_view text, ThreadTime end);
// The same of a schema inside a document. `where`: what pointers begin with.
Result<nlohmann::ordered_json> checked_schema(const nlohmann::ordered_json& schema,
                                              const std::string& where, ThreadTime end);

}  // namespace nvllm
