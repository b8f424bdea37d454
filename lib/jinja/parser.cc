// Taking tokens one by one, and limits on how deep the trees become.
#include "lib/jinja/parser.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm::chat {
namespace {

constexpr int kMaxNesting = 100;
constexpr int kMaxTreeDepth = 250;

}  // namespace

Parser::Nesting::Nesting(Parser& owner) : parser(owner) {
    if (++parser.nesting_ > kMaxNesting) {
        fail_template(parser.now().line,
                      "nested more than " + std::to_string(kMaxNesting) + " deep");
    }
}

Token Parser::take() {
    Token token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
}

bool Parser::take_symbol(std::string_view symbol) {
    if (!now().is_symbol(symbol)) return false;
    take();
    return true;
}

bool Parser::take_name(std::string_view name) {
    if (!now().is_name(name)) return false;
    take();
    return true;
}

void Parser::unexpected(const std::string& wanted) const {
    std::string got = now().value;
    switch (now().kind) {
        case TokenKind::end:
            got = "end of template";
            break;
        case TokenKind::block_end:
            got = "end of statement block";
            break;
        case TokenKind::variable_end:
            got = "end of print statement";
            break;
        default:
            got = "'" + got + "'";
            break;
    }
    fail_template(now().line, "expected " + wanted + ", got " + got);
}

void Parser::expect_symbol(std::string_view symbol) {
    if (!take_symbol(symbol)) unexpected("'" + std::string(symbol) + "'");
}

void Parser::expect(TokenKind kind, const char* what) {
    if (now().kind != kind) unexpected(what);
    take();
}

std::string Parser::expect_any_name(const char* what) {
    if (now().kind != TokenKind::name) unexpected(what);
    return take().value;
}

ExpressionPtr Parser::make(ExpressionKind kind, std::string text) {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->line = now().line;
    node->text = std::move(text);
    return node;
}

ExpressionPtr Parser::finished(ExpressionPtr node) const {
    int below = node->depth - 1;
    for (const auto& operand : node->operands) {
        if (operand) below = std::max(below, operand->depth);
    }
    node->depth = below + 1;
    if (node->depth > kMaxTreeDepth) fail_template(node->line, "an expression is too long");
    return node;
}

}  // namespace nvllm::chat
