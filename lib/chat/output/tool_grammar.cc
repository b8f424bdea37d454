// Writes structural tags: one row a format, put together from literals, schemas and special tokens.
#include "lib/chat/output/tool_grammar.h"

#include <algorithm>

#include "lib/base/json.h"
#include "lib/chat/output/format_tables.h"
#include "lib/chat/output/tag_json.h"

namespace nvllm {
namespace {

using output::any_of;
using output::append;
using output::sequence;
using output::TagJson;

// A call is before_name NAME after_name ARGUMENTS call_end; calls stand between section_begin and
// section_end with the separator between them. `trigger` begins the whole.
struct CallForm {
    std::string_view format;
    std::string_view trigger;
    std::string_view section_begin;
    std::string_view section_end;
    std::string_view separator;
    std::string_view before_name;
    std::string_view after_name;
    std::string_view call_end;
    std::string_view style = "json";    // of the arguments, as xgrammar names it
    std::string_view after_index = {};  // a number and this follow after_name
};

constexpr std::string_view kName = "{\"name\": \"";
constexpr std::string_view kArguments = "\", \"arguments\": ";
constexpr std::string_view kParameters = "\", \"parameters\": ";

const CallForm kCallForms[] = {
    {"hermes", "<tool_call>", "", "", "\n", "<tool_call>\n{\"name\": \"", kArguments,
     "}\n</tool_call>"},
    {"qwen3_coder", "<tool_call>", "", "", "\n", "<tool_call>\n<function=", ">\n",
     "\n</function>\n</tool_call>", "qwen_xml"},
    {"seed_oss", "<seed:tool_call>", "", "", "\n", "<seed:tool_call>\n<function=", ">\n",
     "\n</function>\n</seed:tool_call>", "qwen_xml"},
    {"llama3_json", kName, "", "", "; ", kName, kParameters, "}"},
    {"json", kName, "", "", "\n", kName, kArguments, "}"},
    {"mistral", "[TOOL_CALLS]", "[TOOL_CALLS] [", "]", ", ", kName, kArguments, "}"},
    {"granite", "<|tool_call|>", "<|tool_call|>[", "]", ", ", kName, kArguments, "}"},
    {"phi4_mini_json", "functools", "functools[", "]", ", ", kName, kArguments, "}"},
    {"jamba", "<tool_calls>", "<tool_calls>[\n    ", "\n]</tool_calls>", ",\n    ", kName,
     kArguments, "}"},
    {"internlm", "<|action_start|>", "", "", "\n", "<|action_start|><|plugin|>\n{\"name\": \"",
     kParameters, "}<|action_end|>"},
    {"deepseek_v3", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
     "\n", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
     "\n```<｜tool▁call▁end｜>"},
    {"deepseek_v31", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "",
     "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"},
    {"deepseek_v32", "<｜DSML｜function_calls>", "<｜DSML｜function_calls>\n",
     "</｜DSML｜function_calls>", "", "<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>\n",
     "deepseek_xml"},
    {"glm45", "<tool_call>", "", "", "\n", "<tool_call>", "\n", "</tool_call>", "glm_xml"},
    {"kimi_k2", "<|tool_calls_section_begin|>", "<|tool_calls_section_begin|>",
     "<|tool_calls_section_end|>", "", "<|tool_call_begin|>functions.", ":", "<|tool_call_end|>",
     "json", "<|tool_call_argument_begin|>"},
    {"minimax_m2", "<minimax:tool_call>", "<minimax:tool_call>\n", "</minimax:tool_call>", "",
     "<invoke name=\"", "\">\n", "</invoke>\n", "minimax_xml"},
    // A call ends the answer, so that there is one.
    {"openai", "<|channel|>", "", "", "", "<|channel|>commentary to=functions.",
     " <|constrain|>json<|message|>", ""},
};

// From version 11 of Mistral's tokenizers on, which have [ARGS].
const CallForm kNamedMistral = {"mistral", "[TOOL_CALLS]", "",       "",
                                "",        "[TOOL_CALLS]", "[ARGS]", ""};

// Arguments are an object, also where the schema does not say it.
TagJson arguments_schema(const OfferedTool& tool) {
    if (tool.parameters.empty()) return {{"type", "object"}, {"properties", TagJson::object()}};
    TagJson schema = parse_ordered_json(tool.parameters, "parameters");
    const auto says = [&](const char* key) { return schema.contains(key); };
    const auto keys = {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"};
    if (schema.is_object() && std::ranges::none_of(keys, says)) schema["type"] = "object";
    return schema;
}

bool takes_object(const OfferedTool& tool) {
    const TagJson schema = arguments_schema(tool);
    return schema.is_object() && schema.value("type", TagJson()) == TagJson("object");
}

class TagWriter {
  public:
    TagWriter(const ToolGrammarRequest& request, const CallForm& form)
        : request_(request), form_(form) {}

    TagJson format() const {
        const bool automatic = request_.choice == ToolChoice::automatic;
        const TagJson calls = sequence(all_calls(automatic ? form_.trigger.size() : 0));
        if (form_.format == "openai") return automatic ? any_message() : thought_then(calls);
        if (!automatic) return calls;
        return dispatch(calls);
    }

  private:
    bool is_special(std::string_view text) const {
        const auto& tokens = request_.special_tokens;
        return std::find(tokens.begin(), tokens.end(), text) != tokens.end();
    }

    std::vector<TagJson> literal(std::string_view text) const {
        return output::literal(text, request_.special_tokens);
    }

    TagJson arguments(const OfferedTool& tool) const {
        TagJson format = {{"type", "json_schema"}, {"json_schema", arguments_schema(tool)}};
        if (form_.style != "json") format["style"] = form_.style;
        return format;
    }

    // Without the first bytes, where these were written already.
    TagJson call(const OfferedTool& tool, size_t bytes_before) const {
        const bool quoted = form_.before_name.ends_with(kName);
        std::string name = quoted ? json_quoted(tool.name) : tool.name;
        if (quoted) name = name.substr(1, name.size() - 2);
        const std::string head =
            std::string(form_.before_name) + name + std::string(form_.after_name);
        std::vector<TagJson> parts = literal(std::string_view(head).substr(bytes_before));
        if (!form_.after_index.empty()) {
            parts.push_back({{"type", "regex"}, {"pattern", "[0-9]{1,3}"}});
            append(parts, literal(form_.after_index));
        }
        parts.push_back(arguments(tool));
        append(parts, literal(form_.call_end));
        return sequence(parts);
    }

    TagJson one_call(size_t bytes_before) const {
        std::vector<TagJson> calls;
        for (const OfferedTool& tool : request_.tools) calls.push_back(call(tool, bytes_before));
        return any_of(calls);
    }

    // From the first call on, one or several, with the section around them.
    std::vector<TagJson> all_calls(size_t bytes_before) const {
        const bool in_section = !form_.section_begin.empty();
        std::vector<TagJson> parts;
        if (in_section) parts = literal(form_.section_begin.substr(bytes_before));
        parts.push_back(one_call(in_section ? 0 : bytes_before));
        if (request_.several_calls && form_.format != "openai") {
            std::vector<TagJson> next = literal(form_.separator);
            next.push_back(one_call(0));
            parts.push_back({{"type", "star"}, {"content", sequence(next)}});
        }
        append(parts, literal(form_.section_end));
        return parts;
    }

    // Text, until the trigger begins a call.
    TagJson dispatch(const TagJson& rest) const {
        const bool token = is_special(form_.trigger);
        return {{"type", token ? "token_dispatch" : "dispatch"},
                {"rules", TagJson::array({TagJson::array({form_.trigger, rest})})},
                {"loop", request_.several_calls}};
    }

    // Harmony: what a channel's header says, then text.
    TagJson any_message() const {
        std::vector<TagJson> rest = {one_call(form_.trigger.size())};
        for (const char* header :
             {"analysis<|message|>", "final<|message|>", "commentary<|message|>"})
            rest.push_back(sequence(literal(header)));
        return {{"type", "token_dispatch"},
                {"rules", TagJson::array({TagJson::array({form_.trigger, any_of(rest)})})}};
    }

    TagJson thought_then(const TagJson& calls) const {
        return sequence(
            {output::optional(output::harmony_thought(request_.special_tokens)), calls});
    }

    const ToolGrammarRequest& request_;
    const CallForm& form_;
};

const CallForm* find_form(const ToolGrammarRequest& request) {
    const auto* entry = output::find_tool_format(request.tool_format);
    if (entry == nullptr) return nullptr;
    const auto& tokens = request.special_tokens;
    const bool named = std::find(tokens.begin(), tokens.end(), "[ARGS]") != tokens.end();
    if (entry->row.name == "mistral" && named) return &kNamedMistral;
    const auto found =
        std::find_if(std::begin(kCallForms), std::end(kCallForms),
                     [&](const CallForm& row) { return row.format == entry->row.name; });
    return found == std::end(kCallForms) ? nullptr : found;
}

}  // namespace

std::optional<std::string> tool_structural_tag(const ToolGrammarRequest& request) {
    const CallForm* form = find_form(request);
    if (form == nullptr || request.tools.empty()) return std::nullopt;
    return output::structural_tag_text(TagWriter(request, *form).format());
}

HeldCalls held_calls(const ToolGrammarRequest& request) {
    const CallForm* form = find_form(request);
    if (form == nullptr || request.tools.empty()) return {};
    if (!std::ranges::all_of(request.tools, takes_object)) return {};
    HeldCalls held{.begin = std::string(form->trigger),
                   .only_at_start = request.choice == ToolChoice::required};
    if (form->format == "openai") {
        held.begin = form->before_name;
        held.after_name = form->after_name;
    }
    return held;
}

}  // namespace nvllm
