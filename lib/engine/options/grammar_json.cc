// Each field's forms.
#include "lib/engine/options/grammar_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/engine/options/json_values.h"

namespace nvllm {
namespace {

using json_values::read_bool;
using json_values::read_string;
using json_values::WrongValue;
using Json = nlohmann::ordered_json;
using Spec = std::optional<GrammarSpec>;

bool has(const Json& object, const char* name) {
    return object.contains(name) && !object[name].is_null();
}

// An object, or the text of one.
Spec read_schema(const Json& value) {
    if (value.is_string() && value.get_ref<const std::string&>().empty()) return std::nullopt;
    if (value.is_string()) return GrammarSpec{GrammarKind::json_schema, read_string(value)};
    if (!value.is_object() && !value.is_boolean()) {
        throw WrongValue{"a JSON schema: an object, or the text of one"};
    }
    return GrammarSpec{GrammarKind::json_schema, value.dump()};
}

// False as a schema allows nothing, and as a field says nothing.
Spec read_schema_field(const Json& value) {
    if (value == Json(false)) return std::nullopt;
    return read_schema(value);
}

template <GrammarKind Kind>
Spec read_text(const Json& value) {
    std::string text = read_string(value);
    if (text.empty()) return std::nullopt;
    return GrammarSpec{Kind, std::move(text)};
}

Spec read_choice(const Json& value) {
    const auto is_text = [](const Json& one) { return one.is_string(); };
    if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_text)) {
        throw WrongValue{"a list of texts, one at least"};
    }
    return GrammarSpec{GrammarKind::choice, value.dump()};
}

Spec read_json_object(const Json& value) {
    if (!read_bool(value)) return std::nullopt;
    return GrammarSpec{GrammarKind::json_object, {}};
}

Spec read_structural_tag(const Json& value) {
    if (value.is_object()) return GrammarSpec{GrammarKind::structural_tag, value.dump()};
    return read_text<GrammarKind::structural_tag>(value);
}

void refuse_unknown(const Json& object, std::span<const std::string_view> known,
                    const std::string& what) {
    for (const auto& [name, value] : object.items()) {
        if (std::ranges::find(known, name) != known.end() || value.is_null()) continue;
        throw WrongValue{fmt::format("{} with no members but {}: '{}' is not known", what,
                                     fmt::join(known, ", "), name)};
    }
}

// {"name": ..., "schema": {...}, "strict": true}: held to it whatever `strict` says.
Spec read_named_schema(const Json& format) {
    constexpr auto kKnown = std::to_array<std::string_view>(
        {"type", "json_schema", "schema", "name", "description", "strict"});
    refuse_unknown(format, kKnown, "an object of type json_schema");
    const Json& named = has(format, "json_schema") ? format["json_schema"] : format;
    if (!named.is_object() || !has(named, "schema")) {
        throw WrongValue{
            "an object {\"type\": \"json_schema\", \"json_schema\": "
            "{\"name\": ..., \"schema\": {...}}}"};
    }
    refuse_unknown(named, kKnown, "an object json_schema");
    return read_schema(named["schema"]);
}

// With a schema as llama.cpp has it.
Spec read_object_format(const Json& format) {
    constexpr auto kKnown = std::to_array<std::string_view>({"type", "schema"});
    refuse_unknown(format, kKnown, "an object of type json_object");
    if (has(format, "schema")) return read_schema(format["schema"]);
    return GrammarSpec{GrammarKind::json_object, {}};
}

Spec read_response_format(const Json& value) {
    const Json type = value.is_object() ? value.value("type", Json()) : Json();
    if (type == "text") return std::nullopt;
    if (type == "json_object") return read_object_format(value);
    if (type == "json_schema") return read_named_schema(value);
    if (type == "structural_tag") return read_structural_tag(value);
    throw WrongValue{"an object of type text, json_object, json_schema or structural_tag"};
}

constexpr auto kForms = std::to_array<GrammarField>({
    {"json", read_schema},
    {"regex", read_text<GrammarKind::regex>},
    {"choice", read_choice},
    {"grammar", read_text<GrammarKind::grammar>},
    {"json_object", read_json_object},
    {"structural_tag", read_structural_tag},
});

// How the masks are made, not what they allow.
bool changes_nothing(std::string_view name, const Json& value) {
    if (name == "disable_fallback" || name == "_backend" || name == "_backend_was_auto") {
        return true;
    }
    return value == Json(false);
}

// vLLM's: one of the forms above.
Spec read_structured_outputs(const Json& value) {
    constexpr std::string_view kExpected =
        "an object with one of json, regex, choice, grammar, json_object and structural_tag";
    if (!value.is_object()) throw WrongValue{std::string(kExpected)};
    Spec spec;
    std::string_view first;
    for (const auto& [name, form] : value.items()) {
        if (form.is_null()) continue;
        const auto* known = std::ranges::find(kForms, std::string_view(name), &GrammarField::name);
        if (known == kForms.end()) {
            if (changes_nothing(name, form)) continue;
            throw WrongValue{fmt::format("{}: '{}' is not known", kExpected, name)};
        }
        Spec read = known->read(form);
        if (!read) continue;
        if (spec) {
            throw WrongValue{fmt::format("{}: not both '{}' and '{}'", kExpected, first, name)};
        }
        spec = std::move(read);
        first = known->name;
    }
    if (!spec) throw WrongValue{std::string(kExpected)};
    return spec;
}

constexpr auto kFields = std::to_array<GrammarField>({
    {"response_format", read_response_format},
    {"structured_outputs", read_structured_outputs},
    {"guided_json", read_schema_field},
    {"guided_regex", read_text<GrammarKind::regex>},
    {"guided_choice", read_choice},
    {"guided_grammar", read_text<GrammarKind::grammar>},
    {"guided_json_object", read_json_object},
    {"json_schema", read_schema_field},
    {"grammar", read_text<GrammarKind::grammar>},
});

}  // namespace

std::span<const GrammarField> grammar_fields() { return kFields; }

}  // namespace nvllm
