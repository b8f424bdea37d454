// One case of a schema, written for one type of value in the words that the engine holds to.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/grammar/schema/schema_parts.h"
#include "lib/grammar/schema/schema_values.h"

namespace nvllm {

// The schema for a set that all hold; nothing: no value satisfies it.
using WriteSet = std::function<std::optional<SchemaJson>(const SchemaSet&)>;

// What the functions below need.
struct ShapeContext {
    const SchemaDocument& document;
    const SchemaValues& values;
    const WriteSet& write;
    std::deque<SchemaJson>& made;
    const SchemaCase& held;
};

// Each gives {"type": ...} with what constrains it; nothing: no value of the type is left. Throws
// Fault for what cannot be held to.
std::optional<SchemaJson> number_shape(const ShapeContext& context, bool whole);
// `typed`: the schema says that it is a string, so that "format" is more than a description.
std::optional<SchemaJson> string_shape(const ShapeContext& context, bool typed);
std::optional<SchemaJson> array_shape(const ShapeContext& context);
std::optional<SchemaJson> object_shape(const ShapeContext& context);

// A count ("minItems"), which may be written as 2.0. Throws Fault for anything else.
std::optional<int64_t> count_at(const ShapeContext& context, const SchemaJson* node,
                                const char* keyword);

// The parts that `self` applies in place, itself included, by number.
std::vector<size_t> parts_below(const SchemaCase& held, size_t self);

}  // namespace nvllm
