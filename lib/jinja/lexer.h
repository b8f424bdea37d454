// Cuts the source of a chat template (Jinja) into tokens, with white space around tags removed as
// its rules say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nvllm::chat {

enum class TokenKind {
    data,            // text to be shown
    variable_begin,  // {{
    variable_end,
    block_begin,  // {%
    block_end,
    name,
    text,  // a string literal, unescaped
    integer,
    real,
    symbol,  // an operator or bracket
    end,
};

struct Token {
    TokenKind kind = TokenKind::end;
    std::string value;
    int line = 1;

    bool is_symbol(std::string_view symbol) const {
        return kind == TokenKind::symbol && value == symbol;
    }
    bool is_name(std::string_view name) const { return kind == TokenKind::name && value == name; }
};

// The settings are those of the transformers library: trim_blocks and lstrip_blocks.
// Throws Error{bad_data} with the line. The last token is of kind end.
std::vector<Token> lex_template(std::string_view source);

// Throws Error{bad_data}: "chat template, line N: why".
[[noreturn]] void fail_template(int line, const std::string& why);

}  // namespace nvllm::chat
