// The state that the parsers of expressions and of statements share: the tokens and the
// position in them.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "lib/jinja/lexer.h"
#include "lib/jinja/syntax.h"

namespace nvllm::chat {

class Parser {
  public:
    explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    // Expressions (expression_parser.cc).
    ExpressionPtr expression(bool with_conditional = true);
    // Also "a, b" as a tuple. `end_names` are names that end it; explicit parentheses allow an
    // empty one.
    ExpressionPtr tuple(bool with_conditional = true, std::string_view end_name = {},
                        bool in_parentheses = false);
    ExpressionPtr filter_chain(ExpressionPtr head, bool starts_inline);
    Target target(bool with_namespace, std::string_view end_name = {});
    Target name_target();

    // Statements (statement_parser.cc).
    Block whole();

  private:
    // Tokens.
    const Token& now() const { return tokens_[at_]; }
    const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    Token take();
    bool take_symbol(std::string_view symbol);
    bool take_name(std::string_view name);
    void expect_symbol(std::string_view symbol);
    std::string expect_any_name(const char* what);
    void expect(TokenKind kind, const char* what);
    [[noreturn]] void unexpected(const std::string& wanted) const;

    // Trees no deeper than what later recursion can bear.
    ExpressionPtr make(ExpressionKind kind, std::string text = {});
    ExpressionPtr finished(ExpressionPtr node) const;
    struct Nesting {
        explicit Nesting(Parser& parser);
        ~Nesting() { --parser.nesting_; }
        Nesting(const Nesting&) = delete;
        Parser& parser;
    };

    ExpressionPtr logical_or();
    ExpressionPtr logical_and();
    ExpressionPtr negation();
    ExpressionPtr comparison();
    ExpressionPtr sum();
    ExpressionPtr joined();
    ExpressionPtr product();
    ExpressionPtr power();
    ExpressionPtr unary(bool with_filter);
    ExpressionPtr primary();
    ExpressionPtr number(const Token& token);
    ExpressionPtr list_literal();
    ExpressionPtr dict_literal();
    ExpressionPtr postfix(ExpressionPtr node);
    ExpressionPtr subscript(ExpressionPtr node);
    ExpressionPtr slice(ExpressionPtr node, ExpressionPtr first);
    ExpressionPtr call(ExpressionPtr node);
    ExpressionPtr filters_and_tests(ExpressionPtr node);
    ExpressionPtr test(ExpressionPtr node);
    void call_arguments(CallArguments& arguments, int& depth);
    bool tuple_ends(std::string_view end_name) const;
    std::string dotted_name(const char* what);
    void note_use(const std::string& name);

    Block body(std::initializer_list<std::string_view> ends);
    Block until(std::initializer_list<std::string_view> ends);
    StatementPtr statement();
    StatementPtr statement_of(const Token& name);
    StatementPtr loop();
    StatementPtr choice();
    StatementPtr assignment();
    StatementPtr macro();
    StatementPtr call_block();
    StatementPtr filter_block();
    StatementPtr with_block();
    StatementPtr named_block();
    StatementPtr autoescape();
    StatementPtr generation();
    StatementPtr loop_control(StatementKind kind);
    StatementPtr make_statement(StatementKind kind) const;
    std::vector<Parameter> signature();
    void macro_body(MacroSyntax& macro, std::string_view end);

    std::vector<Token> tokens_;
    size_t at_ = 0;
    int nesting_ = 0;
    int loops_ = 0;
    std::vector<MacroSyntax*> open_macros_;
};

}  // namespace nvllm::chat
