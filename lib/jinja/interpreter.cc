// Statements: scopes, loops, macros and output.
#include "lib/jinja/interpreter.h"

#include <algorithm>

#include "kernels/error.h"
#include "lib/jinja/text_form.h"

namespace nvllm::chat {

// A scope for the time of a block.
class ScopeGuard {
  public:
    ScopeGuard(Interpreter& interpreter, Scope* parent)
        : interpreter_(interpreter), outer_(interpreter.scope_), scope_(std::make_unique<Scope>()) {
        scope_->parent = parent;
        interpreter.scope_ = scope_.get();
    }
    ~ScopeGuard() {
        interpreter_.scope_ = outer_;
        if (scope_->captured) interpreter_.kept_scopes_.push_back(std::move(scope_));
    }
    ScopeGuard(const ScopeGuard&) = delete;

  private:
    Interpreter& interpreter_;
    Scope* outer_;
    std::unique_ptr<Scope> scope_;
};

namespace {

// The text in a rendering goes elsewhere for the time of a block.
class OutputGuard {
  public:
    OutputGuard(TrackedText*& output, TrackedText* target) : output_(output), outer_(output) {
        output = target;
    }
    ~OutputGuard() { output_ = outer_; }
    OutputGuard(const OutputGuard&) = delete;

  private:
    TrackedText*& output_;
    TrackedText* outer_;
};

void capture_chain(Scope* scope) {
    for (; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
}

class Macro : public Object {
  public:
    Macro(const MacroSyntax& syntax, Scope* defined_in)
        : syntax_(syntax), defined_in_(defined_in) {}
    std::string type_name() const override { return "Macro"; }
    bool callable() const override { return true; }
    Value call(Interpreter& interpreter, Arguments& arguments) override {
        return interpreter.call_macro(syntax_, defined_in_, arguments);
    }
    bool attribute(std::string_view name, Value& result) override {
        if (name == "name") {
            result = Value::text(std::string_view(syntax_.name));
        } else if (name == "arguments") {
            std::vector<Value> names;
            for (const Parameter& parameter : syntax_.parameters) {
                names.push_back(Value::text(std::string_view(parameter.name)));
            }
            result = Value::tuple(std::move(names));
        } else {
            return false;
        }
        return true;
    }
    std::string text_form() const override { return "<Macro '" + syntax_.name + "'>"; }

  private:
    const MacroSyntax& syntax_;
    Scope* defined_in_;
};

// The block of this name in a template, at any depth; null when there is none.
const Statement* find_block(const Block& block, std::string_view name) {
    for (const auto& statement : block) {
        if (statement->kind == StatementKind::body_only && statement->text.bytes() == name) {
            return statement.get();
        }
        std::vector<const Block*> inner = {&statement->body, &statement->otherwise};
        for (const Branch& branch : statement->branches) inner.push_back(&branch.body);
        if (statement->macro) inner.push_back(&statement->macro->body);
        for (const Block* part : inner) {
            if (const Statement* found = find_block(*part, name)) return found;
        }
    }
    return nullptr;
}

// The variable "self": the template's blocks by name.
class TemplateBlocks : public Object {
  public:
    explicit TemplateBlocks(const Block& whole) : whole_(whole) {}
    std::string type_name() const override { return "TemplateReference"; }
    std::string text_form() const override { return "<TemplateReference None>"; }
    bool attribute(std::string_view name, Value& result) override {
        const Statement* block = name.empty() ? nullptr : find_block(whole_, name);
        if (block == nullptr) return false;
        result = make_function(std::string(name), [block](Interpreter& interpreter, Arguments&) {
            return interpreter.run_named_block(*block);
        });
        return true;
    }

  private:
    const Block& whole_;
};

// The variable "loop".
class LoopState : public Object, public std::enable_shared_from_this<LoopState> {
  public:
    LoopState(const Statement& syntax, std::vector<Value> items, Scope* outer, int depth)
        : syntax_(syntax), items_(std::move(items)), outer_(outer), depth_(depth) {}

    std::string type_name() const override { return "LoopContext"; }
    bool callable() const override { return true; }
    const std::vector<Value>& items() const { return items_; }
    void move_to(size_t index) { index_ = index; }

    Value call(Interpreter& interpreter, Arguments& arguments) override {
        if (!syntax_.recursive) {
            throw TemplateFailure{
                "The loop must have the 'recursive' marker to be called recursively."};
        }
        if (arguments.positional.size() != 1) throw TemplateFailure{"loop() takes one argument"};
        return interpreter.run_loop(syntax_, arguments.positional[0], outer_, depth_ + 1);
    }

    bool attribute(std::string_view name, Value& result) override {
        const auto index = static_cast<int64_t>(index_);
        const auto size = static_cast<int64_t>(items_.size());
        struct Row {
            std::string_view name;
            int64_t value;
        };
        const Row numbers[] = {{"index", index + 1},       {"index0", index},
                               {"revindex", size - index}, {"revindex0", size - index - 1},
                               {"length", size},           {"depth", depth_ + 1},
                               {"depth0", depth_}};
        for (const Row& row : numbers) {
            if (row.name != name) continue;
            result = Value::integer(row.value);
            return true;
        }
        if (name == "first") {
            result = Value::boolean(index == 0);
        } else if (name == "last") {
            result = Value::boolean(index + 1 == size);
        } else if (name == "previtem") {
            result = index > 0 ? items_[index_ - 1] : Value::undefined("there is no previous item");
        } else if (name == "nextitem") {
            result =
                index + 1 < size ? items_[index_ + 1] : Value::undefined("there is no next item");
        } else if (name == "cycle") {
            result = make_function("cycle", [index](Interpreter&, Arguments& arguments) {
                if (arguments.positional.empty())
                    throw TemplateFailure{"no items for cycling given"};
                return arguments
                    .positional[static_cast<size_t>(index) % arguments.positional.size()];
            });
        } else if (name == "changed") {
            result = make_function("changed", [self = shared_from_this()](Interpreter& interpreter,
                                                                          Arguments& arguments) {
                return Value::boolean(self->changed(interpreter, arguments.positional));
            });
        } else {
            return false;
        }
        return true;
    }
    void release() override {
        items_.clear();
        last_.clear();
    }

  private:
    bool changed(Interpreter& interpreter, const std::vector<Value>& values) {
        const auto are_equal = [&](const Value& left, const Value& right) {
            return interpreter.are_equal(left, right);
        };
        const bool same = seen_ && last_.size() == values.size() &&
                          std::equal(last_.begin(), last_.end(), values.begin(), are_equal);
        seen_ = true;
        last_ = values;
        return !same;
    }

    const Statement& syntax_;
    std::vector<Value> items_;
    Scope* outer_;
    int depth_;
    size_t index_ = 0;
    std::vector<Value> last_;
    bool seen_ = false;
};

}  // namespace

Value* Scope::find(std::string_view name) {
    for (auto& [known, value] : variables) {
        if (known == name) return &value;
    }
    return nullptr;
}

void Scope::set(const std::string& name, Value value) {
    if (Value* known = find(name)) {
        *known = std::move(value);
    } else {
        variables.emplace_back(name, std::move(value));
    }
}

Interpreter::Interpreter(Budget budget, std::tm now) : budget_(budget), now_(now) {
    add_functions(*this);
}

Interpreter::~Interpreter() {
    // Objects may hold each other: each lets go before any is freed, so that nothing recurses or
    // leaks.
    for (const auto& object : objects_) object->release();
}

Interpreter::Deeper::Deeper(Interpreter& owner) : interpreter(owner) {
    if (++owner.depth_ > owner.budget_.depth) {
        --owner.depth_;
        throw TemplateFailure{"the template calls itself, or nests, too deeply"};
    }
}

void Interpreter::step(uint64_t count) {
    steps_ += count;
    if (steps_ > budget_.steps) throw TemplateFailure{"the template takes too many steps"};
}

bool Interpreter::are_equal(const Value& left, const Value& right) {
    step_over(std::min(left.extent(), right.extent()));
    return equal(left, right);
}

int Interpreter::order_of(const Value& left, const Value& right, std::string_view operation) {
    step_over(std::min(left.extent(), right.extent()));
    return compare(left, right, operation);
}

// Keys other than texts are compared with each.
void Interpreter::step_for_key(const Dict& dict, const Value& key) {
    if (key.is_text()) {
        step();
    } else {
        step(dict.size());
        step_over(std::min(dict.extent(), key.extent() * dict.size()));
    }
}

const Value* Interpreter::find(const Dict& dict, const Value& key) {
    step_for_key(dict, key);
    return dict.find(key);
}

void Interpreter::set(Dict& dict, const Value& key, Value value) {
    step_for_key(dict, key);
    dict.set(key, std::move(value));
}

void Interpreter::charge(uint64_t bytes) {
    produced_ += bytes;
    if (produced_ > budget_.produced_bytes)
        throw TemplateFailure{"the template makes too much text"};
}

Value Interpreter::text(TrackedText value, bool markup) {
    charge(value.size());
    return Value::text(std::move(value), markup);
}

Value Interpreter::keep(std::shared_ptr<Object> object) {
    charge(1024);
    objects_.push_back(object);
    return Value::object(std::move(object));
}

TrackedText Interpreter::run(const Block& block) {
    TrackedText output;
    const OutputGuard guard(output_, &output);
    const ScopeGuard scope(*this, nullptr);
    outermost_ = scope_;
    set_global("self", Value::object(std::make_shared<TemplateBlocks>(block)));
    run_block(block);
    return output;
}

Value Interpreter::run_named_block(const Statement& block) {
    const Deeper deeper(*this);
    step();
    TrackedText inner;
    {
        const OutputGuard guard(output_, &inner);
        const ScopeGuard scope(*this, outermost_);
        run_block(block.body);
    }
    return text(std::move(inner));
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
    for (const auto& statement : block) {
        const Flow flow = run_statement(*statement);
        if (flow != Flow::normal) return flow;
    }
    return Flow::normal;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement) {
    const Deeper deeper(*this);
    step();
    line_ = statement.line;
    switch (statement.kind) {
        case StatementKind::data:
            print(Value::text(statement.text));
            break;
        case StatementKind::print:
            print(evaluate(*statement.expression));
            break;
        case StatementKind::choice:
            return run_choice(statement);
        case StatementKind::loop:
            return run_for(statement, evaluate(*statement.expression), scope_, 0);
        case StatementKind::assign:
            assign(statement.target, evaluate(*statement.expression));
            break;
        case StatementKind::capture:
            run_capture(statement);
            break;
        case StatementKind::macro:
            scope_->set(statement.macro->name, define_macro(*statement.macro));
            break;
        case StatementKind::call:
            run_call(statement);
            break;
        case StatementKind::filter:
            print(apply_filters(*statement.expression, text(captured(statement.body))));
            break;
        case StatementKind::with:
            run_with(statement);
            break;
        case StatementKind::body_only: {
            const ScopeGuard scope(*this, scope_);
            run_block(statement.body);
            break;
        }
        case StatementKind::stop:
            return Flow::stop;
        case StatementKind::skip:
            return Flow::skip;
    }
    return Flow::normal;
}

void Interpreter::print(const Value& value) {
    if (value.is_text()) {
        output_->append(value.as_text());
    } else {
        output_->append(text_of(value));
    }
    if (output_->size() > budget_.output_bytes) throw TemplateFailure{"the output is too long"};
}

TrackedText Interpreter::captured(const Block& block) {
    TrackedText inner;
    const OutputGuard guard(output_, &inner);
    const ScopeGuard scope(*this, scope_);
    run_block(block);
    return inner;
}

Interpreter::Flow Interpreter::run_choice(const Statement& statement) {
    for (const Branch& branch : statement.branches) {
        if (evaluate(*branch.condition).truth()) return run_block(branch.body);
    }
    return run_block(statement.body);
}

std::vector<Value> Interpreter::filtered(const Statement& statement, std::vector<Value> items) {
    if (!statement.condition) return items;
    std::vector<Value> kept;
    for (Value& item : items) {
        const ScopeGuard scope(*this, scope_);
        assign(statement.target, item);
        if (evaluate(*statement.condition).truth()) kept.push_back(std::move(item));
    }
    return kept;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, const Value& iterable,
                                       Scope* outer, int depth) {
    const ScopeGuard scope(*this, outer);
    auto items = filtered(statement, elements(iterable));
    if (items.empty()) return run_block(statement.otherwise);
    return run_iterations(statement, std::move(items), depth);
}

Interpreter::Flow Interpreter::run_iterations(const Statement& statement, std::vector<Value> items,
                                              int depth) {
    Scope* outer = scope_;
    const auto loop = std::make_shared<LoopState>(statement, std::move(items), outer, depth);
    if (statement.recursive) capture_chain(outer);
    const Value loop_value = Value::object(loop);
    const size_t count = loop->items().size();
    for (size_t i = 0; i < count; ++i) {
        step();
        loop->move_to(i);
        const ScopeGuard scope(*this, outer);
        scope_->set("loop", loop_value);
        assign(statement.target, Value(loop->items()[i]));
        if (run_block(statement.body) == Flow::stop) break;
    }
    // A macro or a namespace still holds the loop: it is freed with the other objects.
    if (loop.use_count() > 2) keep(loop);
    return Flow::normal;
}

Value Interpreter::run_loop(const Statement& loop, const Value& iterable, Scope* outer, int depth) {
    const Deeper deeper(*this);
    TrackedText inner;
    {
        const OutputGuard guard(output_, &inner);
        run_for(loop, iterable, outer, depth);
    }
    return text(std::move(inner));
}

void Interpreter::assign(const Target& target, const Value& value) {
    if (target.kind == Target::Kind::name) {
        scope_->set(target.name, value);
    } else if (target.kind == Target::Kind::attribute) {
        const Value space = lookup(target.name);
        if (!space.is_object() || !space.as_object()->set_attribute(target.attribute, value)) {
            throw TemplateFailure{"cannot assign attribute on non-namespace object"};
        }
    } else {
        const auto parts = elements(value);
        if (parts.size() != target.parts.size()) {
            throw TemplateFailure{(parts.size() > target.parts.size() ? "too many" : "not enough") +
                                  std::string(" values to unpack (expected ") +
                                  std::to_string(target.parts.size()) + ")"};
        }
        for (size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
    }
}

Value Interpreter::apply_filters(const Expression& chain, const Value& value) {
    const Expression& head = chain;
    const Value input = head.operands[0] ? apply_filters(*head.operands[0], value) : value;
    return filter(head.text, input, evaluate_arguments(head.arguments));
}

void Interpreter::run_capture(const Statement& statement) {
    Value value = text(captured(statement.body));
    if (statement.expression) value = apply_filters(*statement.expression, value);
    assign(statement.target, value);
}

void Interpreter::run_with(const Statement& statement) {
    std::vector<Value> values;
    for (const auto& [target, expression] : statement.assignments)
        values.push_back(evaluate(*expression));
    const ScopeGuard scope(*this, scope_);
    for (size_t i = 0; i < values.size(); ++i) assign(statement.assignments[i].first, values[i]);
    run_block(statement.body);
}

Value Interpreter::define_macro(const MacroSyntax& macro) {
    capture_chain(scope_);
    return keep(std::make_shared<Macro>(macro, scope_));
}

void Interpreter::run_call(const Statement& statement) {
    const Expression& call_node = *statement.expression;
    const Value function = evaluate(*call_node.operands[0]);
    Arguments arguments = evaluate_arguments(call_node.arguments);
    arguments.named.emplace_back("caller", define_macro(*statement.macro));
    print(call(function, std::move(arguments)));
}

Value Interpreter::call_macro(const MacroSyntax& macro, Scope* defined_in, Arguments& arguments) {
    const Deeper deeper(*this);
    const int called_from = line_;
    TrackedText inner;
    {
        const OutputGuard guard(output_, &inner);
        const ScopeGuard scope(*this, defined_in);
        std::vector<bool> used(arguments.named.size(), false);
        const auto take_named = [&](std::string_view name) -> const Value* {
            for (size_t i = 0; i < arguments.named.size(); ++i) {
                if (arguments.named[i].first != name) continue;
                used[i] = true;
                return &arguments.named[i].second;
            }
            return nullptr;
        };
        for (size_t i = 0; i < macro.parameters.size(); ++i) {
            const Parameter& parameter = macro.parameters[i];
            const Value* given =
                i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
            if (given == nullptr) given = take_named(parameter.name);
            Value value = Value::undefined("parameter '" + parameter.name + "' was not provided");
            if (given != nullptr) {
                value = *given;
            } else if (parameter.otherwise) {
                value = evaluate(*parameter.otherwise);
            }
            scope_->set(parameter.name, std::move(value));
        }
        if (macro.uses_caller && scope_->find("caller") == nullptr) {
            const Value* caller = take_named("caller");
            scope_->set("caller",
                        caller != nullptr ? *caller : Value::undefined("No caller defined"));
        }
        const size_t count = macro.parameters.size();
        if (macro.uses_varargs) {
            std::vector<Value> rest;
            for (size_t i = count; i < arguments.positional.size(); ++i)
                rest.push_back(arguments.positional[i]);
            scope_->set("varargs", Value::tuple(std::move(rest)));
        } else if (arguments.positional.size() > count) {
            throw TemplateFailure{"macro '" + macro.name + "' takes not more than " +
                                  std::to_string(count) + " argument(s)"};
        }
        Dict rest;
        for (size_t i = 0; i < arguments.named.size(); ++i) {
            if (used[i]) continue;
            if (!macro.uses_kwargs) {
                throw TemplateFailure{"macro '" + macro.name + "' takes no keyword argument '" +
                                      arguments.named[i].first + "'"};
            }
            rest.set(Value::text(std::string_view(arguments.named[i].first)),
                     arguments.named[i].second);
        }
        if (macro.uses_kwargs) scope_->set("kwargs", make_dict(std::move(rest)));
        run_block(macro.body);
    }
    line_ = called_from;
    return text(std::move(inner));
}

}  // namespace nvllm::chat
