#include "lib/view/grammar_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "lib/grammar/grammar_matcher.h"

namespace nvllm::view {
namespace {

constexpr size_t kTokensShown = 12;

// Goes on as far as the text is accepted.
void read_text(GrammarMatcher& matcher, std::string_view text, GrammarReport& report) {
    report.has_text = true;
    while (report.bytes < text.size()) {
        const std::string_view rest = text.substr(report.bytes);
        const std::string_view character = rest.substr(0, utf8::decode(rest).length);
        if (!matcher.accept_text(character)) {
            report.refused = true;
            report.refused_character = character;
            return;
        }
        report.bytes += character.size();
        ++report.characters;
    }
}

void look_ahead(GrammarMatcher& matcher, const Tokenizer& tokenizer, int32_t vocab_size,
                GrammarReport& report) {
    report.may_end = matcher.may_end();
    report.forced_text = matcher.forced_text();
    for (int byte = 0; byte < 256; ++byte) {
        GrammarMatcher next = matcher;
        const char c = static_cast<char>(byte);
        if (next.accept_text(std::string_view(&c, 1)))
            report.allowed_bytes.push_back(static_cast<uint8_t>(byte));
    }
    std::vector<uint32_t> mask((static_cast<size_t>(vocab_size) + 31) / 32, ~0u);
    matcher.fill_mask(mask);
    for (int32_t id = 0; id < vocab_size; ++id) {
        const auto at = static_cast<size_t>(id);
        if ((mask[at / 32] >> (at % 32) & 1u) == 0) continue;
        if (++report.allowed_token_count <= kTokensShown)
            report.allowed_tokens.push_back({id, tokenizer.token_bytes(id)});
    }
}

std::string shown(std::string_view text) { return json_quoted(text); }

// "a" to "z", "_", characters beyond ASCII.
std::string allowed_in_words(const std::vector<uint8_t>& bytes) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < bytes.size() && bytes[i] < 0x80;) {
        size_t last = i;
        while (last + 1 < bytes.size() && bytes[last + 1] == bytes[last] + 1 &&
               bytes[last + 1] < 0x80)
            ++last;
        const auto text = [](uint8_t byte) {
            return shown(std::string(1, static_cast<char>(byte)));
        };
        if (last >= i + 2) {
            parts.push_back(text(bytes[i]) + " to " + text(bytes[last]));
        } else {
            for (size_t each = i; each <= last; ++each) parts.push_back(text(bytes[each]));
        }
        i = last + 1;
    }
    if (!bytes.empty() && bytes.back() >= 0x80) parts.emplace_back("characters beyond ASCII");
    return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Result<GrammarReport> report_grammar(GrammarCompiler& compiler, const Tokenizer& tokenizer,
                                     int32_t vocab_size, const GrammarSpec& spec,
                                     const std::optional<std::string>& text) {
    // The table of tokens, which is made once, is no part of the time.
    (void)compiler.compile({GrammarKind::choice, "[\"\"]"}).ok();
    const auto begin = std::chrono::steady_clock::now();
    const auto grammar = compiler.compile(spec);
    if (!grammar.ok()) return grammar.fault();
    GrammarReport report;
    report.compile_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    GrammarMatcher matcher(*grammar);
    if (text) read_text(matcher, *text, report);
    look_ahead(matcher, tokenizer, vocab_size, report);
    report.accepted = report.has_text && !report.refused && report.may_end;
    return report;
}

std::string grammar_report_text(const GrammarReport& report) {
    std::string text = fmt::format("compiles in {:.1f} ms\n", report.compile_seconds * 1000);
    std::string place = "at its beginning";
    if (report.has_text) {
        if (report.accepted) {
            text += "accepted: the text is a whole answer\n";
        } else if (report.refused) {
            text += fmt::format("refused at byte {} (character {}): {}\n", report.bytes,
                                report.characters, shown(report.refused_character));
        } else {
            text += fmt::format("unfinished: after {} bytes more has to follow\n", report.bytes);
        }
        place = report.refused ? "there" : "after it";
    }
    if (!report.forced_text.empty())
        text += fmt::format("what must follow {}: {}\n", place, shown(report.forced_text));
    const std::string words = allowed_in_words(report.allowed_bytes);
    text +=
        fmt::format("allowed {}: {}\n", place,
                    words.empty() ? "nothing" + std::string(report.may_end ? " but the end" : "")
                                  : words + (report.may_end ? ", or the end" : ""));
    std::vector<std::string> tokens;
    for (const AllowedToken& token : report.allowed_tokens)
        tokens.push_back(fmt::format("{} {}", token.id, shown(token.text)));
    text += fmt::format("tokens: {}{}{}\n", report.allowed_token_count,
                        tokens.empty() ? "" : ", the first: ", fmt::join(tokens, ", "));
    return text;
}

std::string grammar_report_json(const GrammarReport& report) {
    nlohmann::ordered_json json = {{"compile_seconds", report.compile_seconds}};
    if (report.has_text) {
        json["accepted"] = report.accepted;
        json["refused"] = report.refused;
        json["bytes"] = report.bytes;
        json["characters"] = report.characters;
        if (report.refused) json["refused_character"] = report.refused_character;
    }
    json["may_end"] = report.may_end;
    json["forced_text"] = report.forced_text;
    json["allowed_bytes"] = report.allowed_bytes;
    json["allowed_token_count"] = report.allowed_token_count;
    json["allowed_tokens"] = nlohmann::ordered_json::array();
    for (const AllowedToken& token : report.allowed_tokens)
        json["allowed_tokens"].push_back({{"id", token.id}, {"text", token.text}});
    return write_json(json) + "\n";
}

}  // namespace nvllm::view
