// What an answer is held to, as a request says it.
#pragma once

#include <string>

namespace nvllm {

enum class GrammarKind {
    json_object,     // any JSON object; no text
    json_schema,     // the schema as JSON
    regex,           // ECMAScript's regular expression, matching the whole answer
    choice,          // a JSON list of texts, one of which is the answer
    grammar,         // EBNF, GBNF as llama.cpp writes it included; its start is "root"
    structural_tag,  // {"type": "structural_tag", "format": {...}}, xgrammar's docs/structural_tag
};

struct GrammarSpec {
    GrammarKind kind = GrammarKind::json_object;
    std::string text = {};

    bool operator==(const GrammarSpec&) const = default;
};

}  // namespace nvllm
