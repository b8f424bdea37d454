// Ids and matching of added tokens follow the library that wrote tokenizer.json, odd cases
// included.
#include "lib/tokenizer/added_tokens.h"

#include <algorithm>

#include "lib/base/utf8.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm {
namespace {

// The start of the last character before `end`.
size_t character_before(std::string_view text, size_t end) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    return at;
}

}  // namespace

std::optional<int32_t> AddedTokens::add(const AddedToken& token, const Vocabulary& vocabulary) {
    if (token.content.empty()) return std::nullopt;
    if (const auto own = id(token.content)) {
        add_with_id(token, *own);
        return std::nullopt;
    }
    auto known = vocabulary.id(token.content);
    if (!known) {
        const auto size = static_cast<int32_t>(vocabulary.num_tokens());
        known = std::max(size, id_limit_);
    }
    add_with_id(token, *known);
    return known;
}

void AddedTokens::add_with_id(const AddedToken& token, int32_t id) {
    const bool is_new = ids_.insert_or_assign(token.content, id).second;
    tokens_[id] = token;
    id_limit_ = std::max(id_limit_, id + 1);
    if (token.special) {
        if (special_.insert(token.content).second) special_order_.push_back(token.content);
    } else if (is_new) {
        plain_order_.push_back(token.content);
    } else {
        tokens_[id].special = special_.contains(token.content);
    }
}

void AddedTokens::prepare(const Normalizer* normalizer) {
    for (const auto* order : {&special_order_, &plain_order_}) {
        for (const std::string& content : *order) {
            const int32_t id = ids_.at(content);
            const AddedToken& token = tokens_.at(id);
            NormalizedText spelling(content, false);
            if (token.normalized && normalizer != nullptr) normalizer->apply(spelling);
            if (spelling.text.empty()) continue;
            Finder& finder = token.normalized ? normalized_ : raw_;
            finder.trie.insert(spelling.text, id);
            finder.longest = std::max(finder.longest, spelling.text.size());
        }
    }
}

std::optional<int32_t> AddedTokens::id(std::string_view content) const {
    const auto found = ids_.find(std::string(content));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

const AddedToken* AddedTokens::token(int32_t id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : &found->second;
}

std::optional<TextSection> AddedTokens::find(const Finder& finder, std::string_view text,
                                             size_t from) {
    if (finder.trie.empty()) return std::nullopt;
    for (size_t at = from; at < text.size(); ++at) {
        if (!finder.trie.may_start(static_cast<unsigned char>(text[at]))) continue;
        const auto match = finder.trie.longest(text.substr(at));
        if (match) return TextSection{{at, at + match->length}, match->value};
    }
    return std::nullopt;
}

bool AddedTokens::stands_alone(std::string_view text, ByteRange range) {
    if (range.begin > 0) {
        const size_t before = character_before(text, range.begin);
        if (unicode::is_word(utf8::decode(text.substr(before)).code_point)) return false;
    }
    if (range.end == text.size()) return true;
    return !unicode::is_word(utf8::decode(text.substr(range.end)).code_point);
}

ByteRange AddedTokens::with_spaces(const AddedToken& token, std::string_view text, ByteRange range,
                                   size_t not_before) {
    const auto is_space = [&](size_t at) {
        return unicode::is_white_space(utf8::decode(text.substr(at)).code_point);
    };
    if (token.lstrip) {
        while (range.begin > not_before) {
            const size_t before = character_before(text, range.begin);
            if (!is_space(before)) break;
            range.begin = before;
        }
    }
    while (token.rstrip && range.end < text.size() && is_space(range.end)) {
        range.end += utf8::length_from_lead(static_cast<unsigned char>(text[range.end]));
    }
    return range;
}

}  // namespace nvllm
