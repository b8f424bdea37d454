// Flags of grammars, and what they name.
#include "lib/engine/options/grammar_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/engine/options/grammar_json.h"
#include "lib/engine/options/json_values.h"

namespace nvllm {
namespace {

constexpr size_t kLargestFile = size_t{1} << 20;

GrammarSpec read_grammar_argument(const std::string& given) {
    const bool is_text = given.find("::=") != std::string::npos;
    return {GrammarKind::grammar, is_text ? given : read_file(given, kLargestFile)};
}

GrammarSpec read_choice_argument(const std::string& given) {
    const std::string wrong = "--choice must be a JSON list of texts, such as '[\"yes\", \"no\"]'";
    try {
        const auto list = parse_ordered_json(given, "--choice");
        for (const GrammarField& field : grammar_fields()) {
            if (std::string_view(field.name) == "guided_choice") return *field.read(list);
        }
    } catch (const Error&) {
        throw Error(ErrorKind::usage, wrong);
    } catch (const json_values::WrongValue&) {
        throw Error(ErrorKind::usage, wrong);
    }
    return {};
}

}  // namespace

GrammarSpec read_schema_argument(const std::string& given) {
    const bool is_text = given.find('{') != std::string::npos;
    return {GrammarKind::json_schema, is_text ? given : read_file(given, kLargestFile)};
}

std::optional<GrammarSpec> GrammarFlags::spec() const {
    std::vector<std::string> names;
    if (!json_schema.empty()) names.emplace_back("--json-schema");
    if (json_object) names.emplace_back("--json-object");
    if (!grammar.empty()) names.emplace_back("--grammar");
    if (!regex.empty()) names.emplace_back("--regex");
    if (!choice.empty()) names.emplace_back("--choice");
    if (names.empty()) return std::nullopt;
    if (names.size() > 1) {
        throw Error(ErrorKind::usage, fmt::format("{} all say what answers are held to: give one",
                                                  fmt::join(names, " and ")));
    }
    if (!json_schema.empty()) return read_schema_argument(json_schema);
    if (!grammar.empty()) return read_grammar_argument(grammar);
    if (!choice.empty()) return read_choice_argument(choice);
    if (!regex.empty()) return GrammarSpec{GrammarKind::regex, regex};
    return GrammarSpec{GrammarKind::json_object, {}};
}

OptionList<GrammarFlags> grammar_options() {
    OptionList<GrammarFlags> list("grammar");
    list.group("Structured output (every answer is held to it; one of these)");
    list.add("json-schema", &GrammarFlags::json_schema,
             "A file with a JSON schema, or the schema itself.", value_name("FILE"),
             refuses_empty());
    list.add("json-object", &GrammarFlags::json_object, "Any JSON object.");
    list.add("grammar", &GrammarFlags::grammar,
             "A file with a grammar as EBNF or GBNF, whose start is root, or the grammar itself.",
             value_name("FILE"), refuses_empty());
    list.add("regex", &GrammarFlags::regex, "A regular expression that matches the whole answer.",
             value_name("TEXT"), refuses_empty());
    list.add("choice", &GrammarFlags::choice, "A JSON list of texts, one of which is the answer.",
             value_name("LIST"), refuses_empty());
    return list;
}

}  // namespace nvllm
