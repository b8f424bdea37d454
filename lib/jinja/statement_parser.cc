// Statements: what stands between {% and %}.
#include <array>

#include "kernels/error.h"
#include "lib/jinja/parser.h"

namespace nvllm::chat {
namespace {

bool is_one_of(const Token& token, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
        if (token.is_name(name)) return true;
    }
    return false;
}

}  // namespace

StatementPtr Parser::make_statement(StatementKind kind) const {
    auto node = std::make_unique<Statement>();
    node->kind = kind;
    node->line = now().line;
    return node;
}

Block Parser::whole() {
    Block block = until({});
    if (now().kind != TokenKind::end)
        fail_template(now().line, "unknown tag '" + now().value + "'");
    return block;
}

// Statements up to one of the tags `ends`, whose name is then the next token; up to the end when
// there are none.
Block Parser::until(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Block block;
    while (now().kind != TokenKind::end) {
        if (now().kind == TokenKind::data) {
            auto node = make_statement(StatementKind::data);
            node->text = TrackedText(take().value);
            block.push_back(std::move(node));
        } else if (now().kind == TokenKind::variable_begin) {
            auto node = make_statement(StatementKind::print);
            take();
            node->expression = tuple();
            expect(TokenKind::variable_end, "end of print statement");
            block.push_back(std::move(node));
        } else {
            expect(TokenKind::block_begin, "a tag");
            if (is_one_of(now(), ends)) return block;
            block.push_back(statement());
            expect(TokenKind::block_end, "end of statement block");
        }
    }
    if (ends.size() > 0) {
        fail_template(now().line,
                      "the template ends without '" + std::string(*(ends.end() - 1)) + "'");
    }
    return block;
}

// The rest of the tag, then statements.
Block Parser::body(std::initializer_list<std::string_view> ends) {
    take_symbol(":");
    expect(TokenKind::block_end, "end of statement block");
    return until(ends);
}

StatementPtr Parser::statement() {
    const Token name = now();
    if (name.kind != TokenKind::name) unexpected("the name of a tag");
    take();
    return statement_of(name);
}

StatementPtr Parser::statement_of(const Token& name) {
    struct Row {
        std::string_view name;
        StatementPtr (Parser::*parse)();
    };
    constexpr std::array<Row, 10> kRows = {{
        {"for", &Parser::loop},
        {"if", &Parser::choice},
        {"set", &Parser::assignment},
        {"macro", &Parser::macro},
        {"call", &Parser::call_block},
        {"filter", &Parser::filter_block},
        {"with", &Parser::with_block},
        {"block", &Parser::named_block},
        {"autoescape", &Parser::autoescape},
        {"generation", &Parser::generation},
    }};
    for (const Row& row : kRows) {
        if (row.name == name.value) return (this->*row.parse)();
    }
    if (name.value == "break") return loop_control(StatementKind::stop);
    if (name.value == "continue") return loop_control(StatementKind::skip);
    if (name.value == "print") {
        auto node = make_statement(StatementKind::print);
        node->expression = tuple();
        return node;
    }
    for (const char* other : {"extends", "include", "import", "from"}) {
        if (name.value == other)
            fail_template(name.line, "'" + name.value + "' needs other files: not supported");
    }
    fail_template(name.line, "unknown tag '" + name.value + "'");
}

StatementPtr Parser::loop_control(StatementKind kind) {
    if (loops_ == 0) fail_template(now().line, "break and continue belong in a loop");
    return make_statement(kind);
}

StatementPtr Parser::loop() {
    auto node = make_statement(StatementKind::loop);
    node->target = target(false, "in");
    if (!take_name("in")) unexpected("'in'");
    node->expression = tuple(false, "recursive");
    if (take_name("if")) node->condition = expression();
    node->recursive = take_name("recursive");
    ++loops_;
    node->body = body({"else", "endfor"});
    --loops_;
    if (take_name("else")) node->otherwise = body({"endfor"});
    take_name("endfor");
    return node;
}

StatementPtr Parser::choice() {
    auto node = make_statement(StatementKind::choice);
    do {
        Branch branch;
        branch.condition = tuple(false);
        branch.body = body({"elif", "else", "endif"});
        node->branches.push_back(std::move(branch));
    } while (take_name("elif"));
    if (take_name("else")) node->body = body({"endif"});
    take_name("endif");
    return node;
}

StatementPtr Parser::assignment() {
    auto node = make_statement(StatementKind::assign);
    node->target = target(true);
    if (take_symbol("=")) {
        node->expression = tuple();
        return node;
    }
    node->kind = StatementKind::capture;
    node->expression = filter_chain(nullptr, false);
    node->body = body({"endset"});
    take();
    return node;
}

std::vector<Parameter> Parser::signature() {
    std::vector<Parameter> parameters;
    expect_symbol("(");
    while (!now().is_symbol(")")) {
        if (!parameters.empty()) expect_symbol(",");
        if (now().is_symbol(")")) break;
        Parameter parameter;
        parameter.name = name_target().name;
        if (take_symbol("=")) {
            parameter.otherwise = expression();
        } else if (!parameters.empty() && parameters.back().otherwise) {
            fail_template(now().line, "non-default argument follows default argument");
        }
        parameters.push_back(std::move(parameter));
    }
    expect_symbol(")");
    return parameters;
}

void Parser::macro_body(MacroSyntax& macro, std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    open_macros_.push_back(&macro);
    macro.body = body({end});
    open_macros_.pop_back();
    loops_ = outer_loops;
    take();
}

StatementPtr Parser::macro() {
    auto node = make_statement(StatementKind::macro);
    node->macro = std::make_unique<MacroSyntax>();
    node->macro->name = name_target().name;
    node->macro->parameters = signature();
    macro_body(*node->macro, "endmacro");
    return node;
}

StatementPtr Parser::call_block() {
    auto node = make_statement(StatementKind::call);
    node->macro = std::make_unique<MacroSyntax>();
    node->macro->name = "caller";
    if (now().is_symbol("(")) node->macro->parameters = signature();
    node->expression = expression();
    if (node->expression->kind != ExpressionKind::call) fail_template(node->line, "expected call");
    macro_body(*node->macro, "endcall");
    return node;
}

StatementPtr Parser::filter_block() {
    auto node = make_statement(StatementKind::filter);
    node->expression = filter_chain(nullptr, true);
    node->body = body({"endfilter"});
    take();
    return node;
}

StatementPtr Parser::with_block() {
    auto node = make_statement(StatementKind::with);
    while (now().kind != TokenKind::block_end) {
        if (!node->assignments.empty()) expect_symbol(",");
        Target name = name_target();
        expect_symbol("=");
        node->assignments.emplace_back(std::move(name), expression());
    }
    node->body = body({"endwith"});
    take();
    return node;
}

StatementPtr Parser::named_block() {
    auto node = make_statement(StatementKind::body_only);
    node->text = TrackedText(expect_any_name("the name of a block"));
    while (take_name("scoped") || take_name("required")) {
    }
    const int outer_loops = std::exchange(loops_, 0);
    node->body = body({"endblock"});
    loops_ = outer_loops;
    take();
    if (now().kind == TokenKind::name) take();
    return node;
}

StatementPtr Parser::autoescape() {
    auto node = make_statement(StatementKind::body_only);
    node->expression = expression();
    if (node->expression->kind != ExpressionKind::constant || node->expression->value.truth()) {
        fail_template(node->line, "autoescape is not supported: prompts are not HTML");
    }
    node->body = body({"endautoescape"});
    take();
    return node;
}

// The tag by which training marks the model's own words; here it is only a scope.
StatementPtr Parser::generation() {
    auto node = make_statement(StatementKind::body_only);
    const int outer_loops = std::exchange(loops_, 0);
    node->body = body({"endgeneration"});
    loops_ = outer_loops;
    take();
    return node;
}

Block parse_template(std::string_view source) { return Parser(lex_template(source)).whole(); }

}  // namespace nvllm::chat
