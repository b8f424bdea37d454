// Expressions: names, attributes, items, calls and operators.
#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"
#include "lib/jinja/text_operations.h"

namespace nvllm::chat {
namespace {

void require_defined(const Value& value) {
    if (value.is_undefined()) fail(value.undefined_message());
}

Value repeated(Interpreter& interpreter, const Value& sequence, int64_t count) {
    const auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
    if (sequence.is_text()) {
        const TrackedText& once = sequence.as_text();
        // The price is paid before the text is made, and cannot overflow.
        if (!once.empty() && times > (uint64_t{1} << 40) / once.size())
            fail("the template makes too much text");
        interpreter.charge(once.size() * times);
        TrackedText all;
        for (uint64_t i = 0; i < times && !once.empty(); ++i) all.append(once);
        return Value::text(std::move(all), sequence.is_markup());
    }
    const auto& once = sequence.as_list().items;
    if (!once.empty() && times > (uint64_t{1} << 32) / once.size())
        fail("the template makes too long a list");
    interpreter.step(once.size() * times);
    std::vector<Value> all;
    for (uint64_t i = 0; i < times && !once.empty(); ++i)
        all.insert(all.end(), once.begin(), once.end());
    return Value::list(std::move(all), sequence.as_list().kind);
}

bool is_sequence(const Value& value) {
    return value.is_list() &&
           (value.as_list().kind == List::Kind::list || value.as_list().kind == List::Kind::tuple);
}

Value added(Interpreter& interpreter, const Value& left, const Value& right) {
    if (left.is_text() && right.is_text()) {
        const bool markup = left.is_markup() || right.is_markup();
        TrackedText sum =
            markup && !left.is_markup() ? escaped_html(left.as_text()) : left.as_text();
        sum.append(markup && !right.is_markup() ? escaped_html(right.as_text()) : right.as_text());
        return interpreter.text(std::move(sum), markup);
    }
    if (is_sequence(left) && is_sequence(right) && left.as_list().kind == right.as_list().kind) {
        std::vector<Value> all = left.as_list().items;
        const auto& more = right.as_list().items;
        interpreter.step(all.size() + more.size());
        all.insert(all.end(), more.begin(), more.end());
        return Value::list(std::move(all), left.as_list().kind);
    }
    fail("unsupported operand type(s) for +: '" + left.type_name() + "' and '" + right.type_name() +
         "'");
}

Value power(int64_t base, int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) fail("0.0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    int64_t result = 1;
    if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
    if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
    for (int64_t i = 0; i < exponent; ++i) {
        if (__builtin_mul_overflow(result, base, &result)) fail("a number is too large");
    }
    return Value::integer(result);
}

Value integer_arithmetic(std::string_view operation, int64_t left, int64_t right) {
    int64_t result = 0;
    bool overflow = false;
    if (operation == "+") {
        overflow = __builtin_add_overflow(left, right, &result);
    } else if (operation == "-") {
        overflow = __builtin_sub_overflow(left, right, &result);
    } else if (operation == "*") {
        overflow = __builtin_mul_overflow(left, right, &result);
    }
    if (overflow) fail("a number is too large");
    if (operation == "+" || operation == "-" || operation == "*") return Value::integer(result);
    if (operation == "**") return power(left, right);
    if (right == 0)
        fail(operation == "/" ? "division by zero" : "integer division or modulo by zero");
    if (operation == "/")
        return Value::real(static_cast<double>(left) / static_cast<double>(right));
    if (left == INT64_MIN && right == -1) {
        if (operation == "%") return Value::integer(0);
        fail("a number is too large");
    }
    // Python rounds down, C++ towards zero.
    const bool adjust = left % right != 0 && (left < 0) != (right < 0);
    if (operation == "//") return Value::integer(left / right - (adjust ? 1 : 0));
    return Value::integer(left % right + (adjust ? right : 0));
}

Value real_arithmetic(std::string_view operation, double left, double right) {
    if (operation == "+") return Value::real(left + right);
    if (operation == "-") return Value::real(left - right);
    if (operation == "*") return Value::real(left * right);
    if (operation == "**") return Value::real(std::pow(left, right));
    if (right == 0) fail("float division by zero");
    if (operation == "/") return Value::real(left / right);
    if (operation == "//") return Value::real(std::floor(left / right));
    double rest = std::fmod(left, right);
    if (rest != 0 && (rest < 0) != (right < 0)) rest += right;
    return Value::real(rest);
}

bool contains(Interpreter& interpreter, const Value& container, const Value& element) {
    if (container.is_text()) {
        if (!element.is_text()) {
            fail("'in <string>' requires string as left operand, not " + element.type_name());
        }
        interpreter.step_over(container.extent());
        return first_in(container.as_text().bytes(), element.as_text().bytes()) !=
               std::string_view::npos;
    }
    if (container.is_dict()) {
        if (element.is_dict() ||
            (element.is_list() && element.as_list().kind == List::Kind::list)) {
            fail("unhashable type: '" + element.type_name() + "'");
        }
        return interpreter.find(container.as_dict(), element) != nullptr;
    }
    if (container.is_undefined()) return false;
    if (!container.is_list())
        fail("argument of type '" + container.type_name() + "' is not iterable");
    for (const Value& item : interpreter.elements(container)) {
        if (interpreter.are_equal(item, element)) return true;
    }
    return false;
}

}  // namespace

Value Interpreter::evaluate(const Expression& expression) {
    const Deeper deeper(*this);
    step();
    return evaluate_kind(expression);
}

Value Interpreter::evaluate_kind(const Expression& expression) {
    switch (expression.kind) {
        case ExpressionKind::constant:
            return expression.value;
        case ExpressionKind::name:
            return lookup(expression.text);
        case ExpressionKind::list:
        case ExpressionKind::tuple:
            return evaluate_items(expression);
        case ExpressionKind::dict:
            return evaluate_dict(expression);
        case ExpressionKind::attribute:
        case ExpressionKind::item:
            return evaluate_access(expression);
        case ExpressionKind::slice:
            return evaluate_slice(expression);
        case ExpressionKind::call:
        case ExpressionKind::filter:
        case ExpressionKind::test:
            return evaluate_call(expression);
        case ExpressionKind::unary:
            return evaluate_unary(expression);
        case ExpressionKind::binary:
        case ExpressionKind::logical_and:
        case ExpressionKind::logical_or:
            return evaluate_binary(expression);
        case ExpressionKind::join:
            return evaluate_join(expression);
        case ExpressionKind::comparison:
            return evaluate_comparison(expression);
        case ExpressionKind::conditional:
            return evaluate_conditional(expression);
    }
    return {};
}

Value Interpreter::evaluate_items(const Expression& expression) {
    std::vector<Value> items;
    for (const ExpressionPtr& operand : expression.operands) items.push_back(evaluate(*operand));
    const bool is_list = expression.kind == ExpressionKind::list;
    return Value::list(std::move(items), is_list ? List::Kind::list : List::Kind::tuple);
}

Value Interpreter::evaluate_access(const Expression& expression) {
    const Value container = evaluate(*expression.operands[0]);
    if (expression.kind == ExpressionKind::attribute) return attribute(container, expression.text);
    return item(container, evaluate(*expression.operands[1]));
}

// Of a function, a filter or a test, which all take arguments.
Value Interpreter::evaluate_call(const Expression& expression) {
    const Value input = evaluate(*expression.operands[0]);
    Arguments arguments = evaluate_arguments(expression.arguments);
    if (expression.kind == ExpressionKind::call) return call(input, std::move(arguments));
    if (expression.kind == ExpressionKind::filter) {
        return filter(expression.text, input, std::move(arguments));
    }
    return Value::boolean(test(expression.text, input, std::move(arguments)));
}

// The right side of "and" and "or" is evaluated only if the left one does not decide.
Value Interpreter::evaluate_binary(const Expression& expression) {
    Value left = evaluate(*expression.operands[0]);
    const Expression& right = *expression.operands[1];
    if (expression.kind == ExpressionKind::logical_and) {
        return left.truth() ? evaluate(right) : left;
    }
    if (expression.kind == ExpressionKind::logical_or) {
        return left.truth() ? left : evaluate(right);
    }
    return binary(expression.text, left, evaluate(right));
}

Value Interpreter::evaluate_conditional(const Expression& expression) {
    if (evaluate(*expression.operands[0]).truth()) return evaluate(*expression.operands[1]);
    if (expression.operands[2]) return evaluate(*expression.operands[2]);
    return Value::undefined(
        "the inline if-expression evaluated to false and no else section was defined.");
}

Value Interpreter::lookup(const std::string& name) {
    for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
        if (const Value* found = scope->find(name)) return *found;
    }
    const auto global = globals_.find(name);
    return global != globals_.end() ? global->second
                                    : Value::undefined("'" + name + "' is undefined");
}

Value Interpreter::evaluate_dict(const Expression& expression) {
    Dict dict;
    for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
        const Value key = evaluate(*expression.operands[i]);
        set(dict, key, evaluate(*expression.operands[i + 1]));
    }
    return make_dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Expression& expression) {
    const Value container = evaluate(*expression.operands[0]);
    const auto bound = [&](size_t index) {
        return expression.operands[index] ? evaluate(*expression.operands[index]) : Value::none();
    };
    const Value first = bound(1);
    const Value last = bound(2);
    const Value stride = bound(3);
    require_defined(container);
    if (container.is_text()) {
        const TrackedText& whole = container.as_text();
        std::vector<size_t> starts;
        utf8::for_each(whole.bytes(), [&](char32_t, size_t at, size_t) { starts.push_back(at); });
        starts.push_back(whole.size());
        step_over(container.extent());
        TrackedText part;
        for (const size_t index : slice_indices(starts.size() - 1, first, last, stride)) {
            part.append(whole.substr(starts[index], starts[index + 1]));
        }
        return text(std::move(part), container.is_markup());
    }
    const bool is_range = container.is_list() && container.as_list().kind == List::Kind::range;
    if (!is_sequence(container) && !is_range) {
        fail("'" + container.type_name() + "' object is not subscriptable");
    }
    std::vector<Value> part;
    const auto& items = container.as_list().items;
    for (const size_t index : slice_indices(items.size(), first, last, stride))
        part.push_back(items[index]);
    step(part.size());
    return Value::list(std::move(part), is_range ? List::Kind::list : container.as_list().kind);
}

bool Interpreter::compare_by(std::string_view operation, const Value& left, const Value& right) {
    if (operation == "==") return are_equal(left, right);
    if (operation == "!=") return !are_equal(left, right);
    if (operation == "in") return contains(*this, right, left);
    if (operation == "not in") return !contains(*this, right, left);
    const int order = order_of(left, right, operation);
    if (operation == "<") return order < 0;
    if (operation == "<=") return order <= 0;
    return operation == ">" ? order > 0 : order >= 0;
}

Value Interpreter::evaluate_comparison(const Expression& expression) {
    Value left = evaluate(*expression.operands[0]);
    for (size_t i = 0; i < expression.texts.size(); ++i) {
        Value right = evaluate(*expression.operands[i + 1]);
        if (!compare_by(expression.texts[i], left, right)) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Value Interpreter::evaluate_join(const Expression& expression) {
    TrackedText all;
    for (const auto& operand : expression.operands) all.append(text_of(evaluate(*operand)));
    return text(std::move(all));
}

Value Interpreter::evaluate_unary(const Expression& expression) {
    const Value value = evaluate(*expression.operands[0]);
    if (expression.text == "not") return Value::boolean(!value.truth());
    require_defined(value);
    const bool minus = expression.text == "-";
    if (value.is_real()) return Value::real(minus ? -value.as_real() : value.as_real());
    if (!value.is_integer())
        fail("bad operand type for unary " + expression.text + ": '" + value.type_name() + "'");
    return minus ? integer_arithmetic("-", 0, value.as_integer())
                 : Value::integer(value.as_integer());
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments) {
    Arguments result;
    for (const auto& argument : arguments.positional)
        result.positional.push_back(evaluate(*argument));
    if (arguments.more_positional) {
        for (Value& value : elements(evaluate(*arguments.more_positional))) {
            result.positional.push_back(std::move(value));
        }
    }
    for (const auto& [name, argument] : arguments.named)
        result.named.emplace_back(name, evaluate(*argument));
    if (arguments.more_named) {
        const Value more = evaluate(*arguments.more_named);
        if (!more.is_dict()) fail("argument after ** must be a mapping, not " + more.type_name());
        for (const auto& [name, value] : more.as_dict().entries()) {
            if (!name.is_text()) fail("keywords must be strings");
            result.named.emplace_back(name.as_text().bytes(), value);
        }
    }
    return result;
}

Value Interpreter::binary(std::string_view operation, const Value& left, const Value& right) {
    if (operation == "%" && left.is_text()) {
        return text(format_percent(*this, left.as_text(), right), left.is_markup());
    }
    require_defined(left);
    require_defined(right);
    if (left.is_number() && right.is_number()) {
        if (left.is_integer() && right.is_integer()) {
            return integer_arithmetic(operation, left.as_integer(), right.as_integer());
        }
        return real_arithmetic(operation, left.as_real(), right.as_real());
    }
    if (operation == "+") return added(*this, left, right);
    if (operation == "*") {
        if ((left.is_text() || is_sequence(left)) && right.is_integer())
            return repeated(*this, left, right.as_integer());
        if ((right.is_text() || is_sequence(right)) && left.is_integer())
            return repeated(*this, right, left.as_integer());
    }
    fail("unsupported operand type(s) for " + std::string(operation) + ": '" + left.type_name() +
         "' and '" + right.type_name() + "'");
}

Value Interpreter::call(const Value& function, Arguments arguments) {
    require_defined(function);
    if (!function.is_callable()) fail("'" + function.type_name() + "' object is not callable");
    const Deeper deeper(*this);
    // A copy: the object may replace itself in the scope it was found in.
    const std::shared_ptr<Object> held =  // NOLINT(performance-unnecessary-copy-initialization)
        function.as_object();
    return held->call(*this, arguments);
}

Value Interpreter::attribute(const Value& value, std::string_view name) {
    require_defined(value);
    if (value.is_object()) {
        Value result;
        if (value.as_object()->attribute(name, result)) return result;
    } else {
        Value method = find_method(value, name);
        if (!method.is_undefined()) return method;
        if (value.is_dict()) {
            if (const Value* found = value.as_dict().find(name)) return *found;
        }
        if (value.is_list() && value.as_list().is_group) {
            if (name == "grouper") return value.as_list().items[0];
            if (name == "list") return value.as_list().items[1];
        }
    }
    return Value::undefined("'" + value.type_name() + " object' has no attribute '" +
                            std::string(name) + "'");
}

Value Interpreter::item(const Value& value, const Value& key) {
    require_defined(value);
    if (value.is_dict() && !key.is_undefined()) {
        if (const Value* found = find(value.as_dict(), key)) return *found;
    }
    if (key.is_text()) {
        Value result;
        if (value.is_object() && value.as_object()->attribute(key.as_text().bytes(), result))
            return result;
        if (!value.is_object()) result = find_method(value, key.as_text().bytes());
        if (!result.is_undefined()) return result;
        return Value::undefined("'" + value.type_name() + " object' has no attribute '" +
                                key.as_text().bytes() + "'");
    }
    const std::string missing =
        value.type_name() + " object has no element " + repr_of(key).bytes();
    if (!key.is_integer()) return Value::undefined(missing);
    int64_t index = key.as_integer();
    if (is_sequence(value) || (value.is_list() && value.as_list().kind == List::Kind::range)) {
        const auto& items = value.as_list().items;
        if (index < 0) index += static_cast<int64_t>(items.size());
        if (index < 0 || index >= static_cast<int64_t>(items.size()))
            return Value::undefined(missing);
        return items[static_cast<size_t>(index)];
    }
    if (value.is_text()) {
        const TrackedText& whole = value.as_text();
        step_over(value.extent());
        const auto count = static_cast<int64_t>(utf8::count(whole.bytes()));
        if (index < 0) index += count;
        if (index < 0 || index >= count) return Value::undefined(missing);
        size_t at = 0;
        for (; index > 0; --index)
            at += utf8::length_from_lead(static_cast<unsigned char>(whole.bytes()[at]));
        const size_t length = utf8::length_from_lead(static_cast<unsigned char>(whole.bytes()[at]));
        return text(whole.substr(at, at + length));
    }
    return Value::undefined(missing);
}

std::vector<Value> Interpreter::elements(const Value& value) {
    if (value.is_undefined()) return {};
    if (value.is_list()) {
        List& list = value.as_list();
        step(list.items.size());
        if (list.kind != List::Kind::generator) return list.items;
        std::vector<Value> rest(list.items.begin() + static_cast<ptrdiff_t>(list.used),
                                list.items.end());
        list.used = list.items.size();
        return rest;
    }
    std::vector<Value> all;
    if (value.is_dict()) {
        step(value.as_dict().size());
        for (const auto& [key, unused] : value.as_dict().entries()) all.push_back(key);
        return all;
    }
    if (value.is_text()) {
        const TrackedText& whole = value.as_text();
        step(whole.size());
        utf8::for_each(whole.bytes(), [&](char32_t, size_t at, size_t length) {
            all.push_back(Value::text(whole.substr(at, at + length)));
        });
        return all;
    }
    fail("'" + value.type_name() + "' object is not iterable");
}

Value Interpreter::filter(const std::string& name, const Value& value, Arguments arguments) {
    step_over(value.is_text() ? value.extent() : 0);
    const FilterBody body = find_filter(name);
    if (body == nullptr) fail("No filter named '" + name + "'.");
    return body(*this, value, arguments);
}

bool Interpreter::test(const std::string& name, const Value& value, Arguments arguments) {
    step_over(value.is_text() ? value.extent() : 0);
    const TestBody body = find_test(name);
    if (body == nullptr) fail("No test named '" + name + "'.");
    return body(*this, value, arguments);
}

}  // namespace nvllm::chat
