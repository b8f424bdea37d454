// Expressions by recursive descent, with Jinja's precedence.
#include <algorithm>
#include <charconv>

#include "kernels/error.h"
#include "lib/jinja/parser.h"

namespace nvllm::chat {
namespace {

bool is_comparison(const Token& token) {
    for (const char* symbol : {"==", "!=", "<", "<=", ">", ">="}) {
        if (token.is_symbol(symbol)) return true;
    }
    return false;
}

}  // namespace

ExpressionPtr Parser::expression(bool with_conditional) {
    const Nesting nesting(*this);
    auto value = logical_or();
    while (with_conditional && take_name("if")) {
        auto node = make(ExpressionKind::conditional);
        node->operands.push_back(logical_or());
        node->operands.push_back(std::move(value));
        node->operands.push_back(take_name("else") ? expression() : nullptr);
        value = finished(std::move(node));
    }
    return value;
}

ExpressionPtr Parser::logical_or() {
    auto left = logical_and();
    while (take_name("or")) {
        auto node = make(ExpressionKind::logical_or);
        node->operands.push_back(std::move(left));
        node->operands.push_back(logical_and());
        left = finished(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::logical_and() {
    auto left = negation();
    while (take_name("and")) {
        auto node = make(ExpressionKind::logical_and);
        node->operands.push_back(std::move(left));
        node->operands.push_back(negation());
        left = finished(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::negation() {
    if (!now().is_name("not")) return comparison();
    const Nesting nesting(*this);
    auto node = make(ExpressionKind::unary, "not");
    take();
    node->operands.push_back(negation());
    return finished(std::move(node));
}

ExpressionPtr Parser::comparison() {
    auto first = sum();
    ExpressionPtr node;
    const auto add = [&](std::string operation) {
        if (!node) {
            node = make(ExpressionKind::comparison);
            node->operands.push_back(std::move(first));
        }
        node->texts.push_back(std::move(operation));
        node->operands.push_back(sum());
    };
    while (true) {
        if (is_comparison(now())) {
            add(take().value);
        } else if (take_name("in")) {
            add("in");
        } else if (now().is_name("not") && ahead().is_name("in")) {
            take();
            take();
            add("not in");
        } else {
            break;
        }
    }
    return node ? finished(std::move(node)) : std::move(first);
}

ExpressionPtr Parser::sum() {
    auto left = joined();
    while (now().is_symbol("+") || now().is_symbol("-")) {
        auto node = make(ExpressionKind::binary, take().value);
        node->operands.push_back(std::move(left));
        node->operands.push_back(joined());
        left = finished(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::joined() {
    auto first = product();
    if (!now().is_symbol("~")) return first;
    auto node = make(ExpressionKind::join);
    node->operands.push_back(std::move(first));
    while (take_symbol("~")) node->operands.push_back(product());
    return finished(std::move(node));
}

ExpressionPtr Parser::product() {
    auto left = power();
    while (now().is_symbol("*") || now().is_symbol("/") || now().is_symbol("//") ||
           now().is_symbol("%")) {
        auto node = make(ExpressionKind::binary, take().value);
        node->operands.push_back(std::move(left));
        node->operands.push_back(power());
        left = finished(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::power() {
    auto left = unary(true);
    while (now().is_symbol("**")) {
        auto node = make(ExpressionKind::binary, take().value);
        node->operands.push_back(std::move(left));
        node->operands.push_back(unary(true));
        left = finished(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::unary(bool with_filter) {
    const Nesting nesting(*this);
    ExpressionPtr node;
    if (now().is_symbol("-") || now().is_symbol("+")) {
        node = make(ExpressionKind::unary, take().value);
        node->operands.push_back(unary(false));
        node = finished(std::move(node));
    } else {
        node = primary();
    }
    node = postfix(std::move(node));
    return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::number(const Token& token) {
    auto node = make(ExpressionKind::constant);
    if (token.kind == TokenKind::real) {
        node->value = Value::real(std::strtod(token.value.c_str(), nullptr));
        return node;
    }
    int base = 10;
    std::string_view digits = token.value;
    if (digits.size() > 1 && digits[0] == '0' && (digits[1] | 0x20) >= 'b') {
        const char mark = static_cast<char>(digits[1] | 0x20);
        base = mark == 'x' ? 16 : mark == 'o' ? 8 : 2;
        digits.remove_prefix(2);
    }
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
        fail_template(token.line, "the number " + token.value + " is too large");
    }
    node->value = Value::integer(value);
    return node;
}

void Parser::note_use(const std::string& name) {
    for (MacroSyntax* macro : open_macros_) {
        if (name == "varargs") macro->uses_varargs = true;
        if (name == "kwargs") macro->uses_kwargs = true;
        if (name == "caller") macro->uses_caller = true;
    }
}

ExpressionPtr Parser::primary() {
    const Token token = now();
    if (token.kind == TokenKind::name) {
        take();
        auto node = make(ExpressionKind::constant);
        if (token.value == "true" || token.value == "True") {
            node->value = Value::boolean(true);
        } else if (token.value == "false" || token.value == "False") {
            node->value = Value::boolean(false);
        } else if (token.value == "none" || token.value == "None") {
            node->value = Value::none();
        } else {
            note_use(token.value);
            node->kind = ExpressionKind::name;
            node->text = token.value;
        }
        return node;
    }
    if (token.kind == TokenKind::text) {
        auto node = make(ExpressionKind::constant);
        std::string text;
        while (now().kind == TokenKind::text) text += take().value;
        node->value = Value::text(std::string_view(text));
        return node;
    }
    if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number(take());
    if (take_symbol("(")) {
        auto node = tuple(true, {}, true);
        expect_symbol(")");
        return node;
    }
    if (token.is_symbol("[")) return list_literal();
    if (token.is_symbol("{")) return dict_literal();
    unexpected("an expression");
}

ExpressionPtr Parser::list_literal() {
    auto node = make(ExpressionKind::list);
    expect_symbol("[");
    while (!now().is_symbol("]")) {
        if (!node->operands.empty()) expect_symbol(",");
        if (now().is_symbol("]")) break;
        node->operands.push_back(expression());
    }
    expect_symbol("]");
    return finished(std::move(node));
}

ExpressionPtr Parser::dict_literal() {
    auto node = make(ExpressionKind::dict);
    expect_symbol("{");
    while (!now().is_symbol("}")) {
        if (!node->operands.empty()) expect_symbol(",");
        if (now().is_symbol("}")) break;
        node->operands.push_back(expression());
        expect_symbol(":");
        node->operands.push_back(expression());
    }
    expect_symbol("}");
    return finished(std::move(node));
}

bool Parser::tuple_ends(std::string_view end_name) const {
    if (now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end) return true;
    if (now().is_symbol(")")) return true;
    return !end_name.empty() && now().is_name(end_name);
}

ExpressionPtr Parser::tuple(bool with_conditional, std::string_view end_name, bool in_parentheses) {
    auto node = make(ExpressionKind::tuple);
    bool is_tuple = false;
    while (true) {
        if (!node->operands.empty()) expect_symbol(",");
        if (tuple_ends(end_name)) break;
        node->operands.push_back(expression(with_conditional));
        if (!now().is_symbol(",")) break;
        is_tuple = true;
    }
    if (!is_tuple) {
        if (!node->operands.empty()) return std::move(node->operands[0]);
        if (!in_parentheses) unexpected("an expression");
    }
    return finished(std::move(node));
}

ExpressionPtr Parser::postfix(ExpressionPtr node) {
    while (true) {
        if (now().is_symbol(".") || now().is_symbol("[")) {
            node = subscript(std::move(node));
        } else if (now().is_symbol("(")) {
            node = call(std::move(node));
        } else {
            return node;
        }
    }
}

ExpressionPtr Parser::subscript(ExpressionPtr node) {
    if (take_symbol(".")) {
        const Token token = take();
        if (token.kind == TokenKind::name) {
            auto result = make(ExpressionKind::attribute, token.value);
            result->operands.push_back(std::move(node));
            return finished(std::move(result));
        }
        if (token.kind != TokenKind::integer) fail_template(token.line, "expected name or number");
        auto result = make(ExpressionKind::item);
        result->operands.push_back(std::move(node));
        result->operands.push_back(number(token));
        return finished(std::move(result));
    }
    expect_symbol("[");
    if (now().is_symbol(":")) return slice(std::move(node), nullptr);
    auto index = expression();
    if (now().is_symbol(":")) return slice(std::move(node), std::move(index));
    if (now().is_symbol(",")) {
        auto all = make(ExpressionKind::tuple);
        all->operands.push_back(std::move(index));
        while (take_symbol(",")) {
            if (now().is_symbol("]")) break;
            all->operands.push_back(expression());
        }
        index = finished(std::move(all));
    }
    expect_symbol("]");
    auto result = make(ExpressionKind::item);
    result->operands.push_back(std::move(node));
    result->operands.push_back(std::move(index));
    return finished(std::move(result));
}

ExpressionPtr Parser::slice(ExpressionPtr node, ExpressionPtr first) {
    auto result = make(ExpressionKind::slice);
    result->operands.push_back(std::move(node));
    result->operands.push_back(std::move(first));
    for (int i = 0; i < 2; ++i) {
        ExpressionPtr bound;
        if (take_symbol(":") && !now().is_symbol(":") && !now().is_symbol("]"))
            bound = expression();
        result->operands.push_back(std::move(bound));
    }
    expect_symbol("]");
    return finished(std::move(result));
}

void Parser::call_arguments(CallArguments& arguments, int& depth) {
    expect_symbol("(");
    bool first = true;
    const auto value = [&] {
        auto node = expression();
        depth = std::max(depth, node->depth + 1);
        return node;
    };
    while (!now().is_symbol(")")) {
        if (!first) {
            expect_symbol(",");
            if (now().is_symbol(")")) break;
        }
        first = false;
        if (take_symbol("**")) {
            arguments.more_named = value();
        } else if (take_symbol("*")) {
            arguments.more_positional = value();
        } else if (now().kind == TokenKind::name && ahead().is_symbol("=")) {
            const std::string name = take().value;
            take();
            arguments.named.emplace_back(name, value());
        } else {
            if (!arguments.named.empty() || arguments.more_named) {
                fail_template(now().line, "invalid syntax for function call expression");
            }
            arguments.positional.push_back(value());
        }
    }
    expect_symbol(")");
}

ExpressionPtr Parser::call(ExpressionPtr node) {
    auto result = make(ExpressionKind::call);
    result->operands.push_back(std::move(node));
    call_arguments(result->arguments, result->depth);
    return finished(std::move(result));
}

std::string Parser::dotted_name(const char* what) {
    std::string name = expect_any_name(what);
    while (take_symbol(".")) name += "." + expect_any_name(what);
    return name;
}

ExpressionPtr Parser::filter_chain(ExpressionPtr head, bool starts_inline) {
    while (now().is_symbol("|") || starts_inline) {
        if (!starts_inline) take();
        starts_inline = false;
        auto node = make(ExpressionKind::filter);
        node->text = dotted_name("the name of a filter");
        node->operands.push_back(std::move(head));
        if (now().is_symbol("(")) call_arguments(node->arguments, node->depth);
        head = finished(std::move(node));
    }
    return head;
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr node) {
    while (true) {
        if (now().is_symbol("|")) {
            node = filter_chain(std::move(node), false);
        } else if (now().is_name("is")) {
            node = test(std::move(node));
        } else if (now().is_symbol("(")) {
            node = call(std::move(node));
        } else {
            return node;
        }
    }
}

ExpressionPtr Parser::test(ExpressionPtr node) {
    take();
    const bool negated = take_name("not");
    auto result = make(ExpressionKind::test);
    result->text = dotted_name("the name of a test");
    result->operands.push_back(std::move(node));
    const Token& next = now();
    const bool stops = next.is_name("else") || next.is_name("or") || next.is_name("and");
    const bool operand = next.kind == TokenKind::name || next.kind == TokenKind::text ||
                         next.kind == TokenKind::integer || next.kind == TokenKind::real ||
                         next.is_symbol("[") || next.is_symbol("{");
    if (next.is_symbol("(")) {
        call_arguments(result->arguments, result->depth);
    } else if (operand && !stops) {
        if (next.is_name("is")) fail_template(next.line, "You cannot chain multiple tests with is");
        auto argument = postfix(primary());
        result->depth = std::max(result->depth, argument->depth + 1);
        result->arguments.positional.push_back(std::move(argument));
    }
    result = finished(std::move(result));
    if (!negated) return result;
    auto inverse = make(ExpressionKind::unary, "not");
    inverse->operands.push_back(std::move(result));
    return finished(std::move(inverse));
}

Target Parser::name_target() {
    Target result;
    result.name = expect_any_name("a name");
    for (const char* reserved : {"true", "false", "none", "True", "False", "None"}) {
        if (result.name == reserved)
            fail_template(now().line, "can't assign to '" + result.name + "'");
    }
    return result;
}

Target Parser::target(bool with_namespace, std::string_view end_name) {
    if (with_namespace && ahead().is_symbol(".") && now().kind == TokenKind::name) {
        Target result;
        result.kind = Target::Kind::attribute;
        result.name = take().value;
        take();
        result.attribute = expect_any_name("the name of an attribute");
        return result;
    }
    std::vector<Target> parts;
    bool is_tuple = false;
    const Nesting nesting(*this);
    while (!(now().is_symbol("=") || now().is_symbol(")") || now().kind == TokenKind::block_end ||
             (!end_name.empty() && now().is_name(end_name)))) {
        if (take_symbol("(")) {
            parts.push_back(target(false));
            expect_symbol(")");
        } else {
            parts.push_back(name_target());
        }
        if (!take_symbol(",")) break;
        is_tuple = true;
    }
    if (parts.empty()) unexpected("a name");
    if (!is_tuple) return std::move(parts[0]);
    Target result;
    result.kind = Target::Kind::tuple;
    result.parts = std::move(parts);
    return result;
}

}  // namespace nvllm::chat
