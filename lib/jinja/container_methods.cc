// The methods of Python's list, tuple and dict that do not change them; those that do are refused.
#include <algorithm>
#include <array>

#include "lib/jinja/interpreter.h"

namespace nvllm::chat {
namespace {

Value dict_get(Interpreter&, const Value& self, Arguments& arguments) {
    const Parameters parameters("get", arguments, {"key", "default"});
    const Value* found = self.as_dict().find(parameters.required(0));
    if (found != nullptr) return *found;
    return parameters.find(1) != nullptr ? *parameters.find(1) : Value::none();
}

Value view(const char* form, std::vector<Value> items) {
    Value result = Value::list(std::move(items), List::Kind::view);
    result.as_list().form = form;
    return result;
}

Value dict_items(Interpreter& interpreter, const Value& self, Arguments&) {
    std::vector<Value> items;
    interpreter.step(self.as_dict().size());
    for (const auto& [key, value] : self.as_dict().entries())
        items.push_back(Value::tuple({key, value}));
    return view("dict_items", std::move(items));
}

Value dict_keys(Interpreter& interpreter, const Value& self, Arguments&) {
    return view("dict_keys", interpreter.elements(self));
}

Value dict_values(Interpreter& interpreter, const Value& self, Arguments&) {
    std::vector<Value> values;
    interpreter.step(self.as_dict().size());
    for (const auto& [key, value] : self.as_dict().entries()) values.push_back(value);
    return view("dict_values", std::move(values));
}

Value dict_copy(Interpreter& interpreter, const Value& self, Arguments&) {
    interpreter.step(self.as_dict().size());
    return make_dict(self.as_dict());
}

Value list_index(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("index", arguments, {"value"});
    const auto& items = self.as_list().items;
    for (size_t i = 0; i < items.size(); ++i) {
        if (interpreter.are_equal(items[i], parameters.required(0)))
            return Value::integer(static_cast<int64_t>(i));
    }
    throw TemplateFailure{"the value is not in the list"};
}

Value list_count(Interpreter& interpreter, const Value& self, Arguments& arguments) {
    const Parameters parameters("count", arguments, {"value"});
    int64_t found = 0;
    for (const Value& item : self.as_list().items) {
        found += interpreter.are_equal(item, parameters.required(0));
    }
    return Value::integer(found);
}

Value list_copy(Interpreter& interpreter, const Value& self, Arguments&) {
    return Value::list(interpreter.elements(self));
}

struct Row {
    std::string_view name;
    FilterBody body;
};

constexpr std::array<Row, 5> kDictMethods = {{
    {"get", dict_get},
    {"items", dict_items},
    {"keys", dict_keys},
    {"values", dict_values},
    {"copy", dict_copy},
}};

constexpr std::array<Row, 3> kListMethods = {
    {{"index", list_index}, {"count", list_count}, {"copy", list_copy}}};

// They change their object: a template may name but not call them.
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault",
                                                          "update"};

template <typename Rows>
FilterBody find_in(const Rows& rows, std::string_view name) {
    for (const auto& row : rows) {
        if (row.name == name) return row.body;
    }
    return nullptr;
}

template <typename Names>
Value refused(const Names& names, const Value& value, std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) return {};
    return make_function(
        std::string(name),
        [type = value.type_name(), name = std::string(name)](Interpreter&, Arguments&) -> Value {
            throw TemplateFailure{"access to attribute '" + name + "' of '" + type +
                                  "' object is unsafe."};
        });
}

}  // namespace

Value find_method(const Value& value, std::string_view name) {
    FilterBody body = nullptr;
    if (value.is_text()) {
        body = find_text_method(name);
    } else if (value.is_dict()) {
        body = find_in(kDictMethods, name);
        if (body == nullptr) return refused(kDictChanges, value, name);
    } else if (value.is_list() && value.as_list().kind != List::Kind::generator &&
               value.as_list().kind != List::Kind::view) {
        const bool list = value.as_list().kind == List::Kind::list;
        body = find_in(kListMethods, name);
        if (!list && name == "copy") body = nullptr;
        if (body == nullptr) return list ? refused(kListChanges, value, name) : Value();
    }
    if (body == nullptr) return {};
    return make_function(
        std::string(name),
        [value, body](Interpreter& interpreter, Arguments& arguments) {
            interpreter.step_over(value.is_text() ? value.extent() : 0);
            return body(interpreter, value, arguments);
        },
        value.depth() + 1);
}

}  // namespace nvllm::chat
