// Which values schemas as SchemaWriter writes them allow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/grammar/schema/schema_document.h"

namespace nvllm {

// Written schemas: {} (anything), {"enum": [...]}, {"anyOf": [...]}, {"$ref": "#/$defs/..."},
// {"type":
// [...]} and {"type": ..., ...} with what constrains that type. `definitions`: those that are
// finished, by name.
class SchemaValues {
  public:
    explicit SchemaValues(const SchemaJson& definitions) : definitions_(definitions) {}

    // Nothing: it cannot be told.
    std::optional<bool> accepts(const SchemaJson& written, const SchemaJson& value) const;
    // No value satisfies both. False also where it cannot be told.
    bool are_disjoint(const SchemaJson& first, const SchemaJson& second) const;
    // What it says of one type ("number" stands for integers too), one schema an alternative.
    // Nothing: it cannot be told.
    std::optional<std::vector<SchemaJson>> of_type(const SchemaJson& written,
                                                   const std::string& type) const;

  private:
    const SchemaJson* resolved(const SchemaJson& written) const;
    std::optional<bool> accepts(const SchemaJson& written, const SchemaJson& value,
                                int depth) const;
    std::optional<bool> accepts_object(const SchemaJson& written, const SchemaJson& value,
                                       int depth) const;
    std::optional<bool> accepts_array(const SchemaJson& written, const SchemaJson& value,
                                      int depth) const;
    bool are_disjoint(const SchemaJson& first, const SchemaJson& second, int depth) const;
    bool objects_are_disjoint(const SchemaJson& first, const SchemaJson& second, int depth) const;

    const SchemaJson& definitions_;
};

// "null", "boolean", "number", "string", "array" or "object".
std::string type_of(const SchemaJson& value);

}  // namespace nvllm
