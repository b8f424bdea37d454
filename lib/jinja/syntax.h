// The syntax tree of a chat template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/jinja/value.h"

namespace nvllm::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
    constant,
    name,
    list,       // operands
    tuple,      // operands
    dict,       // operands: key, value, key, value ...
    attribute,  // operands[0].text
    item,       // operands[0][operands[1]]
    slice,      // operands[0][first : last : step], each may be null
    call,       // operands[0](arguments)
    filter,     // operands[0] | text(arguments); operands[0] is null at the head of a filter block
    test,       // operands[0] is text(arguments)
    unary,      // text: "-" "+" "not"
    binary,     // text: + - * / // % **
    logical_and,
    logical_or,
    join,         // operands joined as text (~)
    comparison,   // operands[0] texts[0] operands[1] texts[1] ...
    conditional,  // operands: condition, value, otherwise (may be null)
};

struct CallArguments {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
    ExpressionPtr more_positional;  // *list
    ExpressionPtr more_named;       // **dict
};

struct Expression {
    ExpressionKind kind = ExpressionKind::constant;
    int line = 1;
    int depth = 1;  // of the tree below
    std::string text;
    Value value;
    std::vector<ExpressionPtr> operands;
    std::vector<std::string> texts;
    CallArguments arguments;
};

// What is assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
    enum class Kind { name, attribute, tuple };
    Kind kind = Kind::name;
    std::string name;
    std::string attribute;
    std::vector<Target> parts;
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Block = std::vector<StatementPtr>;

struct Parameter {
    std::string name;
    ExpressionPtr otherwise;  // null: undefined when not given
};

// A macro, or the body of a call block.
struct MacroSyntax {
    std::string name;
    std::vector<Parameter> parameters;
    Block body;
    bool uses_varargs = false;
    bool uses_kwargs = false;
    bool uses_caller = false;
};

enum class StatementKind {
    data,     // text
    print,    // expression
    choice,   // if: branches, otherwise in body
    loop,     // for target in expression if condition: body, else otherwise
    assign,   // target = expression
    capture,  // target = body, through expression's filters when not null
    macro,
    call,       // {% call %}: expression is the call, macro its body
    filter,     // body through expression's filters
    with,       // targets = values, body
    body_only,  // a block of the name in text, or autoescape: the body, in a scope of its own
    stop,       // break
    skip,       // continue
};

struct Branch {
    ExpressionPtr condition;
    Block body;
};

struct Statement {
    StatementKind kind = StatementKind::data;
    int line = 1;
    TrackedText text;
    ExpressionPtr expression;
    ExpressionPtr condition;
    Target target;
    bool recursive = false;
    std::vector<Branch> branches;
    std::vector<std::pair<Target, ExpressionPtr>> assignments;
    Block body;
    Block otherwise;
    std::unique_ptr<MacroSyntax> macro;
};

// Throws Error{bad_data} with the line.
Block parse_template(std::string_view source);

}  // namespace nvllm::chat
