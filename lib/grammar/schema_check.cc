#include "lib/grammar/schema_check.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxDepth = 100;

}  // namespace

Result<Json> checked_schema(const Json& schema, const std::string&) { return schema; }

Result<std::string> checked_schema(std::string_view text) {
    try {
        JsonLimits limits;
        limits.max_depth = kMaxDepth;
        auto checked = checked_schema(parse_ordered_json(text, "JSON schema", limits), "#");
        if (!checked.ok()) return checked.fault();
        return write_json(*checked);
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace nvllm
