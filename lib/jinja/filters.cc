// Jinja's filters over sequences, numbers and values of any kind; those over text are in
// text_filters.cc.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "lib/base/utf8.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"
#include "lib/jinja/text_operations.h"

namespace nvllm::chat {
namespace {

// "a.b.0" as a path of items; one element per part.
std::vector<Value> attribute_path(const Value& attribute) {
    if (attribute.is_integer()) return {attribute};
    std::vector<Value> path;
    const std::string text = text_of(attribute).bytes();
    size_t begin = 0;
    while (true) {
        const size_t end = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const bool digits =
            !part.empty() && part.size() < 10 &&
            std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
        path.push_back(digits ? Value::integer(std::stol(part))
                              : Value::text(std::string_view(part)));
        if (end == text.size()) return path;
        begin = end + 1;
    }
}

Value follow(Interpreter& interpreter, Value value, const std::vector<Value>& path,
             const Value* otherwise = nullptr) {
    for (const Value& part : path) {
        value = interpreter.item(value, part);
        if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
    }
    return value;
}

// What elements are ordered or compared by: an attribute, without regard to case unless asked.
Value order_key(Interpreter& interpreter, const Value& value, const Value* attribute,
                bool case_sensitive) {
    Value key = value;
    if (attribute != nullptr && !attribute->is_none())
        key = follow(interpreter, value, attribute_path(*attribute));
    if (!case_sensitive && key.is_text()) return Value::text(lower_of(key.as_text()));
    return key;
}

void sort_by_keys(Interpreter& interpreter, std::vector<std::pair<Value, Value>>& keyed,
                  bool reverse) {
    std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
        return reverse ? interpreter.order_of(right.first, left.first) < 0
                       : interpreter.order_of(left.first, right.first) < 0;
    });
}

Value default_filter(Interpreter&, const Value& value, Arguments& arguments) {
    const Parameters parameters("default", arguments, {"default_value", "boolean"});
    if (!value.is_undefined() && !(parameters.truth(1, false) && !value.truth())) return value;
    return parameters.find(0) != nullptr ? *parameters.find(0) : Value::text(std::string_view());
}

Value length(Interpreter&, const Value& value, Arguments&) {
    if (value.is_undefined()) return Value::integer(0);
    if (value.is_text())
        return Value::integer(static_cast<int64_t>(utf8::count(value.as_text().bytes())));
    if (value.is_dict()) return Value::integer(static_cast<int64_t>(value.as_dict().size()));
    if (value.is_list() && value.as_list().kind != List::Kind::generator) {
        return Value::integer(static_cast<int64_t>(value.as_list().items.size()));
    }
    fail("object of type '" + value.type_name() + "' has no len()");
}

Value list(Interpreter& interpreter, const Value& value, Arguments&) {
    return Value::list(interpreter.elements(value));
}

Value first(Interpreter& interpreter, const Value& value, Arguments&) {
    if (value.is_list() && value.as_list().kind == List::Kind::generator) {
        List& source = value.as_list();
        if (source.used < source.items.size()) return source.items[source.used++];
        return Value::undefined("No first item, sequence was empty.");
    }
    const auto items = interpreter.elements(value);
    return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& interpreter, const Value& value, Arguments&) {
    if (value.is_list() && value.as_list().kind == List::Kind::generator) {
        fail("'generator' object is not reversible");
    }
    const auto items = interpreter.elements(value);
    return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Interpreter& interpreter, const Value& value, Arguments&) {
    if (value.is_text()) {
        auto letters = interpreter.elements(value);
        TrackedText out;
        for (auto letter = letters.rbegin(); letter != letters.rend(); ++letter)
            out.append(letter->as_text());
        return interpreter.text(std::move(out));
    }
    auto items = interpreter.elements(value);
    std::reverse(items.begin(), items.end());
    return Value::generator(std::move(items));
}

Value sort(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("sort", arguments, {"reverse", "case_sensitive", "attribute"});
    std::vector<std::vector<Value>> paths;
    const Value* attribute = parameters.find(2);
    if (attribute != nullptr && attribute->is_text()) {
        // "a,b" orders by a, then by b.
        const std::string names = attribute->as_text().bytes();
        for (size_t begin = 0; begin <= names.size();) {
            const size_t end = std::min(names.find(',', begin), names.size());
            paths.push_back(
                attribute_path(Value::text(std::string_view(names).substr(begin, end - begin))));
            begin = end + 1;
        }
    } else if (attribute != nullptr && !attribute->is_none()) {
        paths.push_back(attribute_path(*attribute));
    } else {
        paths.emplace_back();
    }
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : interpreter.elements(value)) {
        std::vector<Value> keys;
        for (const auto& path : paths) {
            keys.push_back(order_key(interpreter, follow(interpreter, item, path), nullptr,
                                     parameters.truth(1, false)));
        }
        keyed.emplace_back(keys.size() == 1 ? keys[0] : Value::list(keys), item);
    }
    sort_by_keys(interpreter, keyed, parameters.truth(0, false));
    std::vector<Value> sorted;
    for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
    return Value::list(std::move(sorted));
}

Value dictsort(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("dictsort", arguments, {"case_sensitive", "by", "reverse"});
    if (!value.is_dict()) fail("dictsort needs a mapping");
    const std::string by = parameters.text(1, "key").bytes();
    if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
    std::vector<std::pair<Value, Value>> keyed;
    for (const auto& [key, entry] : value.as_dict().entries()) {
        keyed.emplace_back(
            order_key(interpreter, by == "key" ? key : entry, nullptr, parameters.truth(0, false)),
            Value::tuple({key, entry}));
    }
    sort_by_keys(interpreter, keyed, parameters.truth(2, false));
    std::vector<Value> sorted;
    for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
    return Value::list(std::move(sorted));
}

Value groupby(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("groupby", arguments, {"attribute", "default", "case_sensitive"});
    const auto path = attribute_path(parameters.required(0));
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : interpreter.elements(value)) {
        const Value key = follow(interpreter, item, path, parameters.find(1));
        keyed.emplace_back(order_key(interpreter, key, nullptr, parameters.truth(2, false)), item);
    }
    sort_by_keys(interpreter, keyed, false);
    std::vector<Value> groups;
    for (size_t i = 0; i < keyed.size();) {
        std::vector<Value> members;
        const size_t begin = i;
        for (; i < keyed.size() && interpreter.are_equal(keyed[i].first, keyed[begin].first); ++i)
            members.push_back(keyed[i].second);
        const Value shown = follow(interpreter, keyed[begin].second, path, parameters.find(1));
        Value group = Value::tuple({shown, Value::list(std::move(members))});
        group.as_list().is_group = true;
        groups.push_back(std::move(group));
    }
    return Value::list(std::move(groups));
}

Value unique(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("unique", arguments, {"case_sensitive", "attribute"});
    Dict seen;
    std::vector<Value> kept;
    for (const Value& item : interpreter.elements(value)) {
        const Value key =
            order_key(interpreter, item, parameters.find(1), parameters.truth(0, false));
        if (interpreter.find(seen, key) != nullptr) continue;
        interpreter.set(seen, key, Value::none());
        kept.push_back(item);
    }
    return Value::generator(std::move(kept));
}

template <bool largest>
Value extreme(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("min", arguments, {"case_sensitive", "attribute"});
    Value best = Value::undefined("No aggregated item, sequence was empty.");
    Value best_key;
    bool any = false;
    for (const Value& item : interpreter.elements(value)) {
        Value key = order_key(interpreter, item, parameters.find(1), parameters.truth(0, false));
        const int order = any ? interpreter.order_of(key, best_key) : 0;
        if (any && (largest ? order <= 0 : order >= 0)) continue;
        any = true;
        best = item;
        best_key = std::move(key);
    }
    return best;
}

Value sum(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("sum", arguments, {"attribute", "start"});
    Value total = parameters.find(1) != nullptr ? *parameters.find(1) : Value::integer(0);
    const Value* attribute = parameters.find(0);
    for (const Value& item : interpreter.elements(value)) {
        const bool by_attribute = attribute != nullptr && !attribute->is_none();
        total = interpreter.binary(
            "+", total,
            by_attribute ? follow(interpreter, item, attribute_path(*attribute)) : item);
    }
    return total;
}

Value map(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    std::vector<Value> results;
    if (!value.truth()) return Value::generator({});
    if (arguments.positional.empty()) {
        const Parameters parameters("map", arguments, {"attribute", "default"});
        const auto path = attribute_path(parameters.required(0));
        for (const Value& item : interpreter.elements(value)) {
            results.push_back(follow(interpreter, item, path, parameters.find(1)));
        }
        return Value::generator(std::move(results));
    }
    const std::string name = text_of(arguments.positional[0]).bytes();
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : interpreter.elements(value)) {
        results.push_back(interpreter.filter(name, item, rest));
    }
    return Value::generator(std::move(results));
}

// select, reject, selectattr, rejectattr
template <bool wanted, bool by_attribute>
Value choose(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    if (!value.truth()) return Value::generator({});
    Arguments rest = arguments;
    std::vector<Value> path;
    if (by_attribute) {
        if (rest.positional.empty()) fail("Missing parameter for attribute name");
        path = attribute_path(rest.positional[0]);
        rest.positional.erase(rest.positional.begin());
    }
    std::string test;
    if (!rest.positional.empty()) {
        test = text_of(rest.positional[0]).bytes();
        rest.positional.erase(rest.positional.begin());
    }
    std::vector<Value> kept;
    for (const Value& item : interpreter.elements(value)) {
        const Value subject = by_attribute ? follow(interpreter, item, path) : item;
        const bool holds = test.empty() ? subject.truth() : interpreter.test(test, subject, rest);
        if (holds == wanted) kept.push_back(item);
    }
    return Value::generator(std::move(kept));
}

Value batch(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("batch", arguments, {"linecount", "fill_with"});
    const int64_t size = integer_of(parameters.required(0), "linecount");
    if (size < 1) fail("batch needs a positive number");
    std::vector<Value> batches;
    std::vector<Value> current;
    for (const Value& item : interpreter.elements(value)) {
        if (static_cast<int64_t>(current.size()) == size)
            batches.push_back(Value::list(std::exchange(current, {})));
        current.push_back(item);
    }
    if (!current.empty()) {
        const Value* fill = parameters.find(1);
        while (fill != nullptr && !fill->is_none() && static_cast<int64_t>(current.size()) < size) {
            interpreter.step();
            current.push_back(*fill);
        }
        batches.push_back(Value::list(std::move(current)));
    }
    return Value::generator(std::move(batches));
}

Value slice(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("slice", arguments, {"slices", "fill_with"});
    const int64_t count = integer_of(parameters.required(0), "slices");
    const auto items = interpreter.elements(value);
    if (count < 1) fail("slice needs a positive number");
    interpreter.step(static_cast<uint64_t>(count));
    const auto slices = static_cast<size_t>(count);
    const size_t each = items.size() / slices;
    const size_t longer = items.size() % slices;
    std::vector<Value> result;
    size_t at = 0;
    for (size_t i = 0; i < slices; ++i) {
        const size_t size = each + (i < longer ? 1 : 0);
        std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(at),
                                items.begin() + static_cast<ptrdiff_t>(at + size));
        at += size;
        const Value* fill = parameters.find(1);
        if (fill != nullptr && !fill->is_none() && i >= longer) part.push_back(*fill);
        result.push_back(Value::list(std::move(part)));
    }
    return Value::generator(std::move(result));
}

Value items(Interpreter& interpreter, const Value& value, Arguments&) {
    if (value.is_undefined()) return Value::generator({});
    if (!value.is_dict()) fail("Can only get item pairs from a mapping.");
    std::vector<Value> pairs;
    interpreter.step(value.as_dict().size());
    for (const auto& [key, entry] : value.as_dict().entries())
        pairs.push_back(Value::tuple({key, entry}));
    return Value::generator(std::move(pairs));
}

Value attr(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("attr", arguments, {"name"});
    const std::string name = text_of(parameters.required(0)).bytes();
    // Attributes only: the entries of a dictionary are not.
    if (value.is_dict()) {
        Value method = find_method(value, name);
        return method.is_undefined()
                   ? Value::undefined("'dict object' has no attribute '" + name + "'")
                   : method;
    }
    return interpreter.attribute(value, name);
}

Value absolute(Interpreter&, const Value& value, Arguments&) {
    if (value.is_real()) return Value::real(std::abs(value.as_real()));
    const int64_t number = integer_of(value, "abs");
    if (number == INT64_MIN) fail("a number is too large");
    return Value::integer(std::abs(number));
}

// The number a text spells, by Python's int(text, base); nothing when it spells none.
std::optional<int64_t> parse_integer(std::string text, int64_t base) {
    text = stripped(TrackedText(text), "", true, true).bytes();
    std::string digits;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool between = i > 0 && i + 1 < text.size() && text[i] == '_' && text[i - 1] != '_';
        if (!between) digits.push_back(text[i]);
    }
    const bool minus = digits.starts_with('-');
    if (minus || digits.starts_with('+')) digits.erase(0, 1);
    if (digits.size() > 2 && digits[0] == '0') {
        const char mark = static_cast<char>(digits[1] | 0x20);
        const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        if (marked != 0 && marked == base) digits.erase(0, 2);
    }
    if (digits.empty()) return std::nullopt;
    int64_t number = 0;
    for (const char c : digits) {
        int64_t digit = 99;
        if (c >= '0' && c <= '9') digit = c - '0';
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') digit = (c | 0x20) - 'a' + 10;
        if (digit >= base) return std::nullopt;
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit, &number)) {
            fail("a number is too large");
        }
    }
    return minus ? -number : number;
}

std::optional<double> parse_real(const std::string& text) {
    const std::string trimmed = stripped(TrackedText(text), "", true, true).bytes();
    if (trimmed.empty() || trimmed.size() > 400 ||
        trimmed.find_first_of("xXpP(") != std::string::npos) {
        return std::nullopt;
    }
    char* end = nullptr;
    const double number = std::strtod(trimmed.c_str(), &end);
    if (end != trimmed.c_str() + trimmed.size()) return std::nullopt;
    return number;
}

Value truncated(double number) {
    if (!(std::abs(number) < 9.2e18)) fail("a number is too large");
    return Value::integer(static_cast<int64_t>(number));
}

Value to_integer(Interpreter&, const Value& value, Arguments& arguments) {
    const Parameters parameters("int", arguments, {"default", "base"});
    if (value.is_undefined()) fail(value.undefined_message());
    if (value.is_integer()) return Value::integer(value.as_integer());
    if (value.is_real()) return truncated(value.as_real());
    if (value.is_text()) {
        const std::string& text = value.as_text().bytes();
        if (const auto number = parse_integer(text, parameters.integer(1, 10)))
            return Value::integer(*number);
        if (const auto number = parse_real(text); number && std::isfinite(*number))
            return truncated(*number);
    }
    return parameters.find(0) != nullptr ? *parameters.find(0) : Value::integer(0);
}

Value to_real(Interpreter&, const Value& value, Arguments& arguments) {
    const Parameters parameters("float", arguments, {"default"});
    if (value.is_undefined()) fail(value.undefined_message());
    if (value.is_number()) return Value::real(value.as_real());
    if (value.is_text()) {
        if (const auto number = parse_real(value.as_text().bytes())) return Value::real(*number);
    }
    return parameters.find(0) != nullptr ? *parameters.find(0) : Value::real(0);
}

Value round(Interpreter&, const Value& value, Arguments& arguments) {
    const Parameters parameters("round", arguments, {"precision", "method"});
    if (!value.is_number()) fail("round needs a number");
    const int64_t precision = std::clamp<int64_t>(parameters.integer(0, 0), -300, 300);
    const std::string method = parameters.text(1, "common").bytes();
    const double number = value.as_real();
    if (method == "common") {
        // The nearest decimal, halves to even, as printing does it; an integer stays one.
        if (value.is_integer() && precision >= 0) return Value::integer(value.as_integer());
        if (precision < 0) {
            const double scale = std::pow(10.0, static_cast<double>(-precision));
            const double rounded = std::nearbyint(number / scale) * scale;
            return value.is_integer() ? truncated(rounded) : Value::real(rounded);
        }
        char buffer[700];
        std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), number);
        return Value::real(std::strtod(buffer, nullptr));
    }
    if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = number * scale;
    return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value to_json(Interpreter& interpreter, const Value& value, Arguments& arguments) {
    const Parameters parameters("tojson", arguments,
                                {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.ensure_ascii = parameters.truth(0, false);
    style.sort_keys = parameters.truth(3, false);
    if (const Value* indent = parameters.find(1); indent != nullptr && !indent->is_none()) {
        style.indented = true;
        style.item_separator = ",";
        if (indent->is_text()) {
            style.indent = indent->as_text().bytes();
        } else {
            style.indent.assign(
                static_cast<size_t>(std::clamp<int64_t>(integer_of(*indent, "indent"), 0, 64)),
                ' ');
        }
    }
    if (const Value* pair = parameters.find(2); pair != nullptr && !pair->is_none()) {
        const auto sides = interpreter.elements(*pair);
        if (sides.size() != 2) fail("separators must be two texts");
        style.item_separator = text_of(sides[0]).bytes();
        style.key_separator = text_of(sides[1]).bytes();
    }
    return interpreter.text(json_of(value, style));
}

Value random(Interpreter& interpreter, const Value& value, Arguments&) {
    // Renderings are repeatable: the first will do.
    const auto all = interpreter.elements(value);
    return all.empty() ? Value::undefined("No random item, sequence was empty.") : all.front();
}

struct Row {
    std::string_view name;
    FilterBody body;
};

constexpr Row kRows[] = {
    {"default", default_filter},
    {"d", default_filter},
    {"length", length},
    {"count", length},
    {"list", list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"sort", sort},
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"sum", sum},
    {"map", map},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
    {"batch", batch},
    {"slice", slice},
    {"items", items},
    {"attr", attr},
    {"abs", absolute},
    {"int", to_integer},
    {"float", to_real},
    {"round", round},
    {"tojson", to_json},
    {"random", random},
};

}  // namespace

FilterBody find_filter(std::string_view name) {
    for (const Row& row : kRows) {
        if (row.name == name) return row.body;
    }
    return find_text_filter(name);
}

}  // namespace nvllm::chat
