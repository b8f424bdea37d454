// The global functions of templates: Jinja's, and those that transformers adds.
#include <algorithm>
#include <map>

#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"

namespace nvllm::chat {
namespace {

// As the sandbox has it.
constexpr int64_t kLongestRange = 100000;

class Namespace : public Object {
  public:
    std::string type_name() const override { return "Namespace"; }
    bool attribute(std::string_view name, Value& result) override {
        const auto found = variables_.find(std::string(name));
        if (found == variables_.end()) return false;
        result = found->second;
        return true;
    }
    bool set_attribute(const std::string& name, const Value& value) override {
        variables_[name] = value;
        return true;
    }
    void release() override { variables_.clear(); }
    Value variables() const override {
        Dict dict;
        for (const auto& [name, value] : variables_)
            dict.set(Value::text(std::string_view(name)), value);
        return make_dict(std::move(dict));
    }

  private:
    std::map<std::string, Value> variables_;
};

class Cycler : public Object {
  public:
    explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
    std::string type_name() const override { return "Cycler"; }
    bool attribute(std::string_view name, Value& result) override {
        if (name == "current") {
            result = items_[at_];
        } else if (name == "next") {
            result = make_function("next", [this](Interpreter&, Arguments&) {
                if (items_.empty()) return Value();
                const Value current = items_[at_];
                at_ = (at_ + 1) % items_.size();
                return current;
            });
        } else if (name == "reset") {
            result = make_function("reset", [this](Interpreter&, Arguments&) {
                at_ = 0;
                return Value::none();
            });
        } else {
            return false;
        }
        return true;
    }
    void release() override {
        items_.assign(1, Value());
        at_ = 0;
    }

  private:
    std::vector<Value> items_;
    size_t at_ = 0;
};

class Joiner : public Object {
  public:
    explicit Joiner(Value separator) : separator_(std::move(separator)) {}
    std::string type_name() const override { return "Joiner"; }
    bool callable() const override { return true; }
    Value call(Interpreter&, Arguments&) override {
        if (used_) return separator_;
        used_ = true;
        return Value::text(std::string_view());
    }
    void release() override { separator_ = Value(); }

  private:
    Value separator_;
    bool used_ = false;
};

Value range(Interpreter& interpreter, Arguments& arguments) {
    const auto& given = arguments.positional;
    if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
        throw TemplateFailure{"range expected 1 to 3 arguments"};
    }
    const int64_t first = given.size() == 1 ? 0 : integer_of(given[0], "range()");
    const int64_t last = integer_of(given[given.size() == 1 ? 0 : 1], "range()");
    const int64_t stride = given.size() == 3 ? integer_of(given[2], "range()") : 1;
    if (stride == 0) throw TemplateFailure{"range() arg 3 must not be zero"};
    std::vector<Value> items;
    const auto inside = [&](int64_t at) { return stride > 0 ? at < last : at > last; };
    for (int64_t at = first; inside(at);) {
        if (static_cast<int64_t>(items.size()) >= kLongestRange) {
            throw TemplateFailure{
                "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."};
        }
        items.push_back(Value::integer(at));
        if (__builtin_add_overflow(at, stride, &at)) break;
    }
    interpreter.step(items.size());
    Value result = Value::list(std::move(items), List::Kind::range);
    result.as_list().form = "range(" + std::to_string(first) + ", " + std::to_string(last) +
                            (stride == 1 ? ")" : ", " + std::to_string(stride) + ")");
    return result;
}

Value dict(Interpreter& interpreter, Arguments& arguments) {
    Dict result;
    if (!arguments.positional.empty()) {
        const Value& source = arguments.positional[0];
        if (source.is_dict()) {
            result = source.as_dict();
        } else {
            for (const Value& pair : interpreter.elements(source)) {
                const auto sides = interpreter.elements(pair);
                if (sides.size() != 2)
                    throw TemplateFailure{"dict() needs pairs of a key and a value"};
                interpreter.set(result, sides[0], sides[1]);
            }
        }
    }
    for (const auto& [name, value] : arguments.named)
        result.set(Value::text(std::string_view(name)), value);
    return make_dict(std::move(result));
}

Value make_namespace(Interpreter& interpreter, Arguments& arguments) {
    auto space = std::make_shared<Namespace>();
    const Value initial = dict(interpreter, arguments);
    for (const auto& [key, value] : initial.as_dict().entries()) {
        if (key.is_text()) space->set_attribute(key.as_text().bytes(), value);
    }
    return interpreter.keep(std::move(space));
}

Value cycler(Interpreter& interpreter, Arguments& arguments) {
    if (arguments.positional.empty()) throw TemplateFailure{"at least one item has to be provided"};
    return interpreter.keep(std::make_shared<Cycler>(arguments.positional));
}

Value joiner(Interpreter& interpreter, Arguments& arguments) {
    const Parameters parameters("joiner", arguments, {"sep"});
    const Value separator =
        parameters.find(0) != nullptr ? *parameters.find(0) : Value::text(std::string_view(", "));
    return interpreter.keep(std::make_shared<Joiner>(separator));
}

Value raise_exception(Interpreter&, Arguments& arguments) {
    const Parameters parameters("raise_exception", arguments, {"message"});
    throw TemplateFailure{text_of(parameters.required(0)).bytes()};
}

Value strftime_now(Interpreter& interpreter, Arguments& arguments) {
    const Parameters parameters("strftime_now", arguments, {"format"});
    std::string format = text_of(parameters.required(0)).bytes();
    if (format.empty()) return Value::text(std::string_view());
    if (format.size() > 1000) throw TemplateFailure{"strftime_now() was given too long a format"};
    for (size_t at = 0; at + 1 < format.size(); ++at) {
        if (format[at] != '%') continue;
        if (format[at + 1] == 'f') format.replace(at, 2, "000000");
        ++at;
    }
    std::string text(format.size() * 64 + 64, '\0');
    text.resize(std::strftime(text.data(), text.size(), format.c_str(), &interpreter.now()));
    return Value::text(std::string_view(text));
}

struct Row {
    const char* name;
    Value (*body)(Interpreter&, Arguments&);
};

constexpr Row kRows[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"cycler", cycler},
    {"joiner", joiner},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

void add_functions(Interpreter& interpreter) {
    for (const Row& row : kRows)
        interpreter.set_global(row.name, make_function(row.name, row.body));
}

}  // namespace nvllm::chat
