#include "lib/grammar/schema_check.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/grammar/schema/schema_document.h"
#include "lib/grammar/schema/schema_writer.h"

namespace nvllm {
namespace {

constexpr size_t kMaxDepth = 100;

}  // namespace

Result<SchemaJson> checked_schema(const SchemaJson& schema, const std::string& where,
                                  ThreadTime end) {
    try {
        const SchemaDocument document(schema, where, end);
        return SchemaWriter(document).write();
    } catch (const Fault& fault) {
        return fault;
    }
}

Result<std::string> checked_schema(std::string_view text, ThreadTime end) {
    try {
        JsonLimits limits;
        limits.max_depth = kMaxDepth;
        auto checked = checked_schema(parse_ordered_json(text, "JSON schema", limits), "#", end);
        if (!checked.ok()) return checked.fault();
        return write_json(*checked);
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace nvllm
