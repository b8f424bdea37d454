// The parts.
#include "lib/chat/output/tag_json.h"

#include <algorithm>

#include "lib/base/json.h"

namespace nvllm::output {

TagJson sequence(std::vector<TagJson> elements) {
    if (elements.size() == 1) return elements.front();
    return {{"type", "sequence"}, {"elements", elements}};
}

TagJson any_of(std::vector<TagJson> elements) {
    if (elements.size() == 1) return elements.front();
    return {{"type", "or"}, {"elements", elements}};
}

TagJson optional(TagJson content) {
    return {{"type", "optional"}, {"content", std::move(content)}};
}

void append(std::vector<TagJson>& to, const std::vector<TagJson>& more) {
    to.insert(to.end(), more.begin(), more.end());
}

std::vector<TagJson> literal(std::string_view text,
                             const std::vector<std::string>& special_tokens) {
    std::vector<TagJson> parts;
    while (!text.empty()) {
        size_t at = text.size();
        std::string_view first;
        for (const std::string& token : special_tokens) {
            const size_t found = token.empty() ? std::string_view::npos : text.find(token);
            if (found >= at) continue;
            at = found;
            first = token;
        }
        if (at > 0) parts.push_back({{"type", "const_string"}, {"value", text.substr(0, at)}});
        if (!first.empty()) parts.push_back({{"type", "token"}, {"token", first}});
        text.remove_prefix(std::min(text.size(), at + first.size()));
    }
    return parts;
}

std::vector<TagJson> text_until(std::string_view end,
                                const std::vector<std::string>& special_tokens) {
    if (std::ranges::find(special_tokens, end) == special_tokens.end()) {
        return {
            {{"type", "tag"}, {"begin", ""}, {"content", {{"type", "any_text"}}}, {"end", end}}};
    }
    return {{{"type", "any_tokens"}, {"exclude_tokens", TagJson::array({end})}},
            {{"type", "token"}, {"token", end}}};
}

TagJson harmony_thought(const std::vector<std::string>& special_tokens) {
    std::vector<TagJson> thought = literal("<|channel|>analysis<|message|>", special_tokens);
    append(thought, text_until("<|end|>", special_tokens));
    append(thought, literal("<|start|>assistant", special_tokens));
    return sequence(thought);
}

std::string structural_tag_text(TagJson format) {
    return write_json(TagJson{{"type", "structural_tag"}, {"format", std::move(format)}});
}

TagJson format_of_tag(const std::string& text) {
    const TagJson tag = parse_ordered_json(text, "structural_tag");
    return tag.is_object() ? tag.value("format", TagJson()) : TagJson();
}

}  // namespace nvllm::output
