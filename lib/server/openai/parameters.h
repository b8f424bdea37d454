// Every field that the bodies of calls may have: the parser goes by this table, and the document of
// the interface is written from it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/openai/generation_request.h"

namespace nvllm::server {

enum class CallKind : uint32_t {
    completion = 1,
    chat = 2,
    embedding = 4,
    tokenize = 8,
    detokenize = 16,
    message = 32,
    message_count = 64,
    response = 128,
    score = 1 << 8,
    rerank = 1 << 9,
    classify = 1 << 10,
};

enum class ParameterUse : uint8_t {
    full,
    no_effect,  // taken because clients send it: who asks, or how another kind of server should
                // work
    not_built,  // refused: the answer would differ from what was asked for
};

// Empty for a name that calls of this kind do not know.
std::optional<ParameterUse> parameter_use(std::string_view name, CallKind kind);

// "'x' must be a string".
Fault field_fault(std::string name, const std::string& complaint);
// The same of a value that asks for what this server does not do, code unsupported_parameter.
Fault unsupported_field(std::string name, const std::string& complaint);

// The value of a member, which is gone afterwards; null where it was absent.
nlohmann::ordered_json take_member(nlohmann::ordered_json& object, const char* name);
// Adds to `ignored` the members of `object` that are not null and not in `known`, as "path.name".
void name_others(const nlohmann::ordered_json& object,
                 std::initializer_list<std::string_view> known, const std::string& path,
                 std::vector<std::string>& ignored);

// Takes out of `body` all that does nothing for a call of this kind, and gives back the names; or
// the first field that is refused (one that is not built, or with `is_strict` an unknown one) and
// leaves `body` as it is.
// REQUIRES: an object.
Result<std::vector<std::string>> take_idle_fields(nlohmann::ordered_json& body, CallKind kind,
                                                  bool is_strict);

// The schema of such a body. Each property has its default where there is one, its description, and
// as x-nvllm-use "full", "no effect" or "not built".
nlohmann::ordered_json request_schema(CallKind kind, const RequestLimits& limits);

}  // namespace nvllm::server
