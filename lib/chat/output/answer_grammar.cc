// Puts a free thought before what a grammar holds the answer to.
#include "lib/chat/output/answer_grammar.h"

#include <algorithm>

#include "lib/base/json.h"
#include "lib/chat/output/format_tables.h"
#include "lib/chat/output/tag_json.h"

namespace nvllm {
namespace {

using namespace output;

constexpr const char* kHarmony = "openai_gptoss";

TagJson choice_of(const std::string& list) {
    std::vector<TagJson> texts;
    for (const TagJson& text : parse_ordered_json(list, "choice")) {
        texts.push_back({{"type", "const_string"}, {"value", text}});
    }
    return any_of(std::move(texts));
}

// The format of a structural tag that allows what the spec allows; null: it has none.
TagJson format_of(const GrammarSpec& spec) {
    switch (spec.kind) {
        case GrammarKind::json_object:
            return {{"type", "json_schema"}, {"json_schema", {{"type", "object"}}}};
        case GrammarKind::json_schema:
            return {{"type", "json_schema"},
                    {"json_schema", parse_ordered_json(spec.text, "json_schema")}};
        case GrammarKind::regex:
            return {{"type", "regex"}, {"pattern", spec.text}};
        case GrammarKind::choice:
            return choice_of(spec.text);
        case GrammarKind::grammar:
            return {{"type", "grammar"}, {"grammar", spec.text}};
        case GrammarKind::structural_tag:
            break;
    }
    return format_of_tag(spec.text);
}

bool ends_with_any(std::string_view text, const std::vector<std::string_view>& tags) {
    const std::string_view end = trimmed(text);
    return std::ranges::any_of(tags, [&](std::string_view tag) { return end.ends_with(tag); });
}

// What stands before the answer itself: the rest of a thought that the prompt opened, or a thought
// that the model may open.
std::vector<TagJson> reasoning_first(const ReasoningTags& tags, std::string_view prompt_end,
                                     const std::vector<std::string>& special_tokens) {
    if (tags.ends.empty() || !tags.kept_after.empty() || ends_with_any(prompt_end, tags.ends)) {
        return {};
    }
    // Where it ends, white space follows, which is no part of the answer.
    const TagJson space = {{"type", "regex"}, {"pattern", "[ \\n]{0,4}"}};
    std::vector<TagJson> thought;
    const bool is_open = prompt_opens(tags, prompt_end);
    if (!is_open) append(thought, literal(tags.begins.front(), special_tokens));
    append(thought, text_until(tags.ends.front(), special_tokens));
    thought.push_back(space);
    if (is_open) return thought;
    return {optional(sequence(std::move(thought)))};
}

TagJson harmony_answer(const AnswerGrammarRequest& request, const TagJson& content) {
    std::vector<TagJson> parts = {optional(harmony_thought(request.special_tokens))};
    append(parts, literal("<|channel|>final<|message|>", request.special_tokens));
    parts.push_back(content);
    return sequence(std::move(parts));
}

}  // namespace

std::optional<GrammarSpec> answer_grammar(const AnswerGrammarRequest& request,
                                          std::string_view prompt_end) {
    const auto* reasoning = find_reasoning_format(request.reasoning_format);
    const bool is_harmony = reasoning != nullptr && reasoning->row.name == kHarmony;
    std::vector<TagJson> alternatives;
    if (request.content) {
        TagJson content = format_of(*request.content);
        if (content.is_null()) return request.content;
        if (is_harmony) content = harmony_answer(request, content);
        alternatives.push_back(std::move(content));
    }
    if (request.calls) {
        ToolGrammarRequest calls = *request.calls;
        if (request.content) calls.choice = ToolChoice::required;
        if (const auto tag = tool_structural_tag(calls)) {
            alternatives.push_back(format_of_tag(*tag));
        }
    }
    if (alternatives.empty()) return std::nullopt;
    std::vector<TagJson> parts;
    if (reasoning != nullptr && !is_harmony) {
        parts = reasoning_first(reasoning->tags, prompt_end, request.special_tokens);
    }
    parts.push_back(any_of(std::move(alternatives)));
    return GrammarSpec{GrammarKind::structural_tag, structural_tag_text(sequence(parts))};
}

HeldCalls held_calls(const AnswerGrammarRequest& request) {
    if (!request.calls) return {};
    HeldCalls held = held_calls(*request.calls);
    if (!request.content) return held;
    const GrammarKind kind = request.content->kind;
    const bool is_json = kind == GrammarKind::json_object || kind == GrammarKind::json_schema;
    if (!is_json || held.begin.starts_with("{")) return {};
    held.only_at_start = true;
    return held;
}

}  // namespace nvllm
