// What must hold together at one place of an answer: the schemas that apply there, taken apart.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "lib/grammar/schema/schema_document.h"

namespace nvllm {

// All of these hold.
using SchemaSet = std::vector<const SchemaJson*>;

// A schema, and the one that applies it in place ("$ref", "allOf", a branch of "anyOf"); -1: none.
struct SchemaPart {
    const SchemaJson* node = nullptr;
    int parent = -1;
};

// What holds besides schemas.
struct SchemaExtras {
    std::vector<const SchemaJson*> negated = {};  // none of these holds
    std::vector<std::string> absent = {};         // properties that are not there
    std::vector<std::string> without_types = {};  // no value of these types
};

// One of several branches.
struct SchemaBranch {
    SchemaSet nodes = {};
    SchemaExtras extras = {};
};

// One way to satisfy a SchemaSet: all parts and extras hold.
struct SchemaCase {
    std::vector<SchemaPart> parts = {};
    SchemaExtras extras = {};
};

// The branches of a node's "oneOf", which no value satisfies two of.
using TellApart = std::function<std::vector<SchemaBranch>(const SchemaJson* node)>;

// Every way to satisfy the set. Throws Fault for what cannot be held to, and for too many of them.
// `made`: where schemas are kept that the document does not have.
std::vector<SchemaCase> schema_cases(const SchemaDocument& document, const SchemaSet& set,
                                     std::deque<SchemaJson>& made, const TellApart& tell_apart);

// The keyword is in it, and else only what describes. Empty: only what describes.
bool has_only(const SchemaJson& node, std::string_view keyword);

}  // namespace nvllm
