#include "lib/grammar/ebnf.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace nvllm {
namespace {

constexpr size_t kMaxNesting = 100;

// In quotes, for EBNF.
std::string literal(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        switch (c) {
            case '"':
                quoted += "\\\"";
                break;
            case '\\':
                quoted += "\\\\";
                break;
            case '\n':
                quoted += "\\n";
                break;
            case '\r':
                quoted += "\\r";
                break;
            case '\t':
                quoted += "\\t";
                break;
            default:
                quoted += c;
        }
    }
    return quoted + "\"";
}

}  // namespace

size_t nesting_of(std::string_view text) {
    size_t depth = 0, deepest = 0;
    char closing = 0;  // of the quotes or brackets that this is inside
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '\\') {
            ++i;
        } else if (closing != 0) {
            if (c == closing) closing = 0;
        } else if (c == '"' || c == '[') {
            closing = c == '[' ? ']' : c;
        } else if (c == '(') {
            deepest = std::max(deepest, ++depth);
        } else if (c == ')' && depth > 0) {
            --depth;
        }
    }
    return deepest;
}

Result<std::string> ebnf_of_grammar(std::string_view text) {
    if (nesting_of(text) > kMaxNesting) {
        return Fault{ErrorKind::bad_data, "the grammar has parentheses nested more than " +
                                              std::to_string(kMaxNesting) + " deep"};
    }
    return std::string(text);
}

Result<std::string> ebnf_of_choice(std::string_view json) {
    try {
        const nlohmann::json choices = parse_json(json, "choice");
        if (!choices.is_array() || choices.empty() ||
            !std::all_of(choices.begin(), choices.end(),
                         [](const nlohmann::json& choice) { return choice.is_string(); })) {
            return Fault{ErrorKind::bad_data,
                         "the choice is no list of texts: [\"yes\", \"no\"] is one"};
        }
        std::string ebnf = "root ::= ";
        for (size_t i = 0; i < choices.size(); ++i)
            ebnf += (i == 0 ? "" : " | ") + literal(choices[i].get_ref<const std::string&>());
        return ebnf + "\n";
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace nvllm
