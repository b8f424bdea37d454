// Values of chat templates: Python's types, as far as templates can see them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lib/jinja/tracked_text.h"

namespace nvllm::chat {

class Interpreter;
class Value;

// A mistake of the template or of what it was given; ends the rendering.
struct TemplateFailure {
    std::string message;
};
[[noreturn]] inline void fail(const std::string& message) { throw TemplateFailure{message}; }

struct Undefined {
    std::shared_ptr<const std::string> what;  // for messages: "'x' is undefined"
};
struct None {};

// Text; `markup` is what |safe and |escape give.
struct Text {
    TrackedText text;
    bool markup = false;
};

// Python's sequences and iterators. A generator can be read once.
struct List {
    enum class Kind { list, tuple, generator, view, range };
    Kind kind = Kind::list;
    std::vector<Value> items;
    size_t used = 0;        // of a generator
    int depth = 1;          // of nesting
    uint64_t extent = 0;    // as Value::extent()
    std::string form;       // of a range: how it is shown
    bool is_group = false;  // of a tuple: its two items are named grouper and list
};

struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

// What can be called, or has attributes of its own.
class Object {
  public:
    virtual ~Object() = default;
    virtual std::string type_name() const = 0;
    virtual bool callable() const { return false; }
    virtual Value call(Interpreter& interpreter, Arguments& arguments);
    // Nothing known by that name: false.
    virtual bool attribute(std::string_view name, Value& result);
    // namespace objects only.
    virtual bool set_attribute(const std::string&, const Value&) { return false; }
    // How deeply nested the values are that are freed with it. Objects that an Interpreter keeps
    // are not.
    virtual int depth() const { return 0; }
    // Lets go of all values held, so that objects that hold each other can be freed.
    virtual void release() {}
    virtual std::string text_form() const { return "<" + type_name() + ">"; }
    // A dictionary, which is shown in place of the text form; undefined where there are none.
    virtual Value variables() const;
};

class Dict;

class Value {
  public:
    using State =
        std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                     std::shared_ptr<List>, std::shared_ptr<Dict>, std::shared_ptr<Object>>;

    Value() : state_(Undefined{}) {}
    Value(State state) : state_(std::move(state)) {}  // NOLINT: meant to be implicit

    static Value undefined(std::string what);
    static Value none() { return Value(State(None{})); }
    static Value boolean(bool value) { return Value(State(value)); }
    static Value integer(int64_t value) { return Value(State(value)); }
    static Value real(double value) { return Value(State(value)); }
    static Value text(TrackedText value, bool markup = false);
    static Value text(std::string_view value) { return text(TrackedText(std::string(value))); }
    // Throws TemplateFailure when the nesting is too deep or the extent too great.
    static Value list(std::vector<Value> items, List::Kind kind = List::Kind::list);
    static Value tuple(std::vector<Value> items) {
        return list(std::move(items), List::Kind::tuple);
    }
    static Value generator(std::vector<Value> items) {
        return list(std::move(items), List::Kind::generator);
    }
    static Value object(std::shared_ptr<Object> object) { return Value(State(std::move(object))); }

    bool is_undefined() const { return std::holds_alternative<Undefined>(state_); }
    bool is_none() const { return std::holds_alternative<None>(state_); }
    bool is_boolean() const { return std::holds_alternative<bool>(state_); }
    bool is_text() const { return std::holds_alternative<std::shared_ptr<const Text>>(state_); }
    bool is_list() const { return std::holds_alternative<std::shared_ptr<List>>(state_); }
    bool is_dict() const { return std::holds_alternative<std::shared_ptr<Dict>>(state_); }
    bool is_object() const { return std::holds_alternative<std::shared_ptr<Object>>(state_); }
    bool is_real() const { return std::holds_alternative<double>(state_); }
    // Numbers of Python's int, which bool is one of.
    bool is_integer() const { return std::holds_alternative<int64_t>(state_) || is_boolean(); }
    bool is_number() const { return is_integer() || is_real(); }
    bool is_callable() const { return is_object() && as_object()->callable(); }

    // Each REQUIRES the kind it names.
    int64_t as_integer() const {
        return is_boolean() ? int64_t{std::get<bool>(state_)} : std::get<int64_t>(state_);
    }
    double as_real() const {
        return is_real() ? std::get<double>(state_) : static_cast<double>(as_integer());
    }
    const TrackedText& as_text() const {
        return std::get<std::shared_ptr<const Text>>(state_)->text;
    }
    bool is_markup() const {
        return is_text() && std::get<std::shared_ptr<const Text>>(state_)->markup;
    }
    List& as_list() const { return *std::get<std::shared_ptr<List>>(state_); }
    Dict& as_dict() const { return *std::get<std::shared_ptr<Dict>>(state_); }
    const std::shared_ptr<Object>& as_object() const {
        return std::get<std::shared_ptr<Object>>(state_);
    }
    const State& state() const { return state_; }

    // How many lists and dictionaries are within each other.
    int depth() const;
    // About how many bytes a walk over the value goes through: what is held twice counts twice.
    uint64_t extent() const;
    // Why there is no value. REQUIRES: is_undefined().
    std::string undefined_message() const;

    // Python's truth. Generators and objects are true.
    bool truth() const;
    // Python's name of the type, for messages and repr.
    std::string type_name() const;

  private:
    State state_;
};

// Insertion order is kept; keys are texts and other hashable values.
class Dict {
  public:
    using Entries = std::vector<std::pair<Value, Value>>;
    const Entries& entries() const { return entries_; }
    size_t size() const { return entries_.size(); }
    // Null when the key is not there.
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;
    int depth() const { return depth_; }
    uint64_t extent() const { return extent_; }
    // Throws TemplateFailure when the key cannot be one, the nesting is too deep or the extent too
    // great.
    void set(const Value& key, Value value);

  private:
    int depth_ = 1;
    uint64_t extent_ = sizeof(Value);
    Entries entries_;
    std::unordered_map<std::string, size_t> text_index_;
};

Value make_dict(Dict dict);

// A function written in C++.
class Function : public Object {
  public:
    using Body = std::function<Value(Interpreter&, Arguments&)>;
    // `depth`: of the nesting of what the body holds.
    Function(std::string name, Body body, int depth)
        : name_(std::move(name)), body_(std::move(body)), depth_(depth) {}
    int depth() const override { return depth_; }
    std::string type_name() const override { return "function"; }
    bool callable() const override { return true; }
    Value call(Interpreter& interpreter, Arguments& arguments) override {
        return body_(interpreter, arguments);
    }
    std::string text_form() const override { return "<function " + name_ + ">"; }

  private:
    std::string name_;
    Body body_;
    int depth_;
};

// Throws TemplateFailure when what the body holds is nested too deeply.
Value make_function(std::string name, Function::Body body, int depth = 0);

// Python's ==.
bool equal(const Value& left, const Value& right);
// Python's ordering: negative, zero, positive. Throws TemplateFailure for types that have none.
int compare(const Value& left, const Value& right, std::string_view operation = "<");

}  // namespace nvllm::chat
