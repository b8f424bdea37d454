// Jinja's tests: what may follow "is".
#include <array>

#include "lib/base/utf8.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"
#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {
namespace {

const Value& only(const char* test, Arguments& arguments) {
    if (arguments.positional.size() != 1) {
        throw TemplateFailure{std::string("test '") + test + "' takes one argument"};
    }
    return arguments.positional[0];
}

bool is_defined(Interpreter&, const Value& value, Arguments&) { return !value.is_undefined(); }
bool is_undefined(Interpreter&, const Value& value, Arguments&) { return value.is_undefined(); }
bool is_none(Interpreter&, const Value& value, Arguments&) { return value.is_none(); }
bool is_boolean(Interpreter&, const Value& value, Arguments&) { return value.is_boolean(); }
bool is_true(Interpreter&, const Value& value, Arguments&) {
    return value.is_boolean() && value.truth();
}
bool is_false(Interpreter&, const Value& value, Arguments&) {
    return value.is_boolean() && !value.truth();
}
bool is_integer(Interpreter&, const Value& value, Arguments&) {
    return value.is_integer() && !value.is_boolean();
}
bool is_float(Interpreter&, const Value& value, Arguments&) { return value.is_real(); }
bool is_number(Interpreter&, const Value& value, Arguments&) { return value.is_number(); }
bool is_string(Interpreter&, const Value& value, Arguments&) { return value.is_text(); }
bool is_mapping(Interpreter&, const Value& value, Arguments&) { return value.is_dict(); }
// What is undefined can be called too: it fails then.
bool is_callable(Interpreter&, const Value& value, Arguments&) {
    return value.is_callable() || value.is_undefined();
}
bool is_escaped(Interpreter&, const Value& value, Arguments&) { return value.is_markup(); }

bool is_iterable(Interpreter&, const Value& value, Arguments&) {
    return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined();
}

// Anything with a length and items; undefined has a length but its items fail.
bool is_sequence(Interpreter&, const Value& value, Arguments&) {
    if (value.is_list())
        return value.as_list().kind == List::Kind::list ||
               value.as_list().kind == List::Kind::tuple ||
               value.as_list().kind == List::Kind::range;
    return value.is_text() || value.is_dict() || value.is_undefined();
}

bool is_odd(Interpreter& interpreter, const Value& value, Arguments&) {
    return equal(interpreter.binary("%", value, Value::integer(2)), Value::integer(1));
}
bool is_even(Interpreter& interpreter, const Value& value, Arguments&) {
    return equal(interpreter.binary("%", value, Value::integer(2)), Value::integer(0));
}

bool is_divisible(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    return !interpreter.binary("%", value, only("divisibleby", arguments)).truth();
}

// By Python's rule: at least one cased character, none of the other case.
bool has_case(Interpreter&, const Value& value, bool upper) {
    bool cased = false;
    bool other = false;
    const TrackedText text = text_of(value);
    utf8::for_each(text.bytes(), [&](char32_t c, size_t, size_t) {
        const bool matches = upper ? unicode::is_uppercase(c) : unicode::is_lowercase(c);
        cased = cased || matches;
        other = other || (upper ? unicode::is_lowercase(c) : unicode::is_uppercase(c));
    });
    return cased && !other;
}
bool is_upper(Interpreter& interpreter, const Value& value, Arguments&) {
    return has_case(interpreter, value, true);
}
bool is_lower(Interpreter& interpreter, const Value& value, Arguments&) {
    return has_case(interpreter, value, false);
}

bool is_same(Interpreter&, const Value& value, Arguments& arguments) {
    const Value& other = only("sameas", arguments);
    if (value.state().index() != other.state().index()) return false;
    if (value.is_list()) return &value.as_list() == &other.as_list();
    if (value.is_dict()) return &value.as_dict() == &other.as_dict();
    return equal(value, other);
}

bool is_filter(Interpreter&, const Value& value, Arguments&) {
    return value.is_text() && find_filter(value.as_text().bytes()) != nullptr;
}
bool is_test(Interpreter&, const Value& value, Arguments&) {
    return value.is_text() && find_test(value.as_text().bytes()) != nullptr;
}

enum class Operation { equal, unequal, less, at_most, more, at_least, in };

template <Operation operation>
bool compares(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    constexpr std::array<std::string_view, 7> kSymbols = {"==", "!=", "<", "<=", ">", ">=", "in"};
    return interpreter.compare_by(kSymbols[static_cast<size_t>(operation)], value,
                                  only("comparison", arguments));
}

struct Row {
    std::string_view name;
    TestBody body;
};

constexpr Row kRows[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", is_number},
    {"string", is_string},
    {"mapping", is_mapping},
    {"callable", is_callable},
    {"escaped", is_escaped},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"upper", is_upper},
    {"lower", is_lower},
    {"sameas", is_same},
    {"filter", is_filter},
    {"test", is_test},
    {"in", compares<Operation::in>},
    {"==", compares<Operation::equal>},
    {"eq", compares<Operation::equal>},
    {"equalto", compares<Operation::equal>},
    {"!=", compares<Operation::unequal>},
    {"ne", compares<Operation::unequal>},
    {"<", compares<Operation::less>},
    {"lt", compares<Operation::less>},
    {"lessthan", compares<Operation::less>},
    {"<=", compares<Operation::at_most>},
    {"le", compares<Operation::at_most>},
    {">", compares<Operation::more>},
    {"gt", compares<Operation::more>},
    {"greaterthan", compares<Operation::more>},
    {">=", compares<Operation::at_least>},
    {"ge", compares<Operation::at_least>},
};

}  // namespace

TestBody find_test(std::string_view name) {
    for (const Row& row : kRows) {
        if (row.name == name) return row.body;
    }
    return nullptr;
}

}  // namespace nvllm::chat
