// Comparison, truth and dictionaries as Python has them.
#include "lib/jinja/value.h"

#include <algorithm>
#include <cmath>

namespace nvllm::chat {
namespace {

// Nested data deeper than this is not built: to free or compare it would exhaust the stack.
constexpr int kMaxDepth = 300;

// Lists that hold a list twice which holds another twice, and so on, are short to build and endless
// to walk over. A request of 16 MiB comes to less.
constexpr uint64_t kGreatestExtent = uint64_t{1} << 30;

uint64_t checked_extent(uint64_t extent) {
    if (extent > kGreatestExtent) {
        throw TemplateFailure{"lists and dictionaries hold too much"};
    }
    return extent;
}

int checked_depth(int depth) {
    if (depth > kMaxDepth) throw TemplateFailure{"lists and dictionaries are nested too deeply"};
    return depth;
}

bool equal_at(const Value& left, const Value& right, int depth);

bool equal_lists(const List& left, const List& right, int depth) {
    if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
    for (size_t i = 0; i < left.items.size(); ++i) {
        if (!equal_at(left.items[i], right.items[i], depth + 1)) return false;
    }
    return true;
}

bool equal_dicts(const Dict& left, const Dict& right, int depth) {
    if (left.size() != right.size()) return false;
    for (const auto& [key, value] : left.entries()) {
        const Value* other = right.find(key);
        if (other == nullptr || !equal_at(value, *other, depth + 1)) return false;
    }
    return true;
}

bool equal_at(const Value& left, const Value& right, int depth) {
    if (depth > kMaxDepth) throw TemplateFailure{"values are nested too deeply to compare"};
    if (left.is_number() && right.is_number()) {
        if (left.is_integer() && right.is_integer()) return left.as_integer() == right.as_integer();
        return left.as_real() == right.as_real();
    }
    if (left.state().index() != right.state().index()) return false;
    if (left.is_text()) return left.as_text().bytes() == right.as_text().bytes();
    if (left.is_list()) {
        if (&left.as_list() == &right.as_list()) return true;
        if (left.as_list().kind == List::Kind::generator) return false;
        return equal_lists(left.as_list(), right.as_list(), depth);
    }
    if (left.is_dict()) return equal_dicts(left.as_dict(), right.as_dict(), depth);
    if (left.is_object()) return left.as_object() == right.as_object();
    return true;  // both undefined, or both none
}

int compare_at(const Value& left, const Value& right, std::string_view operation, int depth) {
    if (depth > kMaxDepth) throw TemplateFailure{"values are nested too deeply to compare"};
    if (left.is_undefined() || right.is_undefined()) {
        const Value& one = left.is_undefined() ? left : right;
        throw TemplateFailure{one.undefined_message()};
    }
    if (left.is_number() && right.is_number()) {
        if (left.is_integer() && right.is_integer()) {
            return left.as_integer() < right.as_integer() ? -1
                                                          : left.as_integer() > right.as_integer();
        }
        return left.as_real() < right.as_real() ? -1 : left.as_real() > right.as_real();
    }
    if (left.is_text() && right.is_text()) {
        return left.as_text().bytes().compare(right.as_text().bytes());
    }
    if (left.is_list() && right.is_list() && left.as_list().kind == right.as_list().kind) {
        const auto& a = left.as_list().items;
        const auto& b = right.as_list().items;
        for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
            if (!equal_at(a[i], b[i], depth + 1))
                return compare_at(a[i], b[i], operation, depth + 1);
        }
        return a.size() < b.size() ? -1 : a.size() > b.size();
    }
    throw TemplateFailure{"'" + std::string(operation) + "' not supported between instances of '" +
                          left.type_name() + "' and '" + right.type_name() + "'"};
}

}  // namespace

Value Object::call(Interpreter&, Arguments&) {
    throw TemplateFailure{"'" + type_name() + "' object is not callable"};
}

bool Object::attribute(std::string_view, Value&) { return false; }

Value Object::variables() const { return {}; }

Value Value::undefined(std::string what) {
    return Value(State(Undefined{std::make_shared<const std::string>(std::move(what))}));
}

Value Value::text(TrackedText value, bool markup) {
    return Value(State(std::make_shared<const Text>(Text{std::move(value), markup})));
}

Value Value::list(std::vector<Value> items, List::Kind kind) {
    int depth = 0;
    uint64_t extent = sizeof(Value);
    for (const Value& item : items) {
        depth = std::max(depth, item.depth());
        extent = checked_extent(extent + item.extent());
    }
    return Value(State(std::make_shared<List>(
        List{kind, std::move(items), 0, checked_depth(depth + 1), extent, {}, false})));
}

int Value::depth() const {
    if (is_list()) return as_list().depth;
    if (is_dict()) return as_dict().depth();
    return is_object() ? as_object()->depth() : 0;
}

uint64_t Value::extent() const {
    if (is_list()) return as_list().extent;
    if (is_dict()) return as_dict().extent();
    return sizeof(Value) + (is_text() ? as_text().size() : 0);
}

std::string Value::undefined_message() const {
    const auto& what = std::get<Undefined>(state_).what;
    return what ? *what : "the value is undefined";
}

Value make_dict(Dict dict) { return Value(Value::State(std::make_shared<Dict>(std::move(dict)))); }

Value make_function(std::string name, Function::Body body, int depth) {
    return Value::object(
        std::make_shared<Function>(std::move(name), std::move(body), checked_depth(depth)));
}

bool Value::truth() const {
    if (is_undefined() || is_none()) return false;
    if (is_boolean()) return std::get<bool>(state_);
    if (is_integer()) return as_integer() != 0;
    if (is_real()) return as_real() != 0;
    if (is_text()) return !as_text().empty();
    if (is_list()) return as_list().kind == List::Kind::generator || !as_list().items.empty();
    if (is_dict()) return as_dict().size() != 0;
    return true;
}

std::string Value::type_name() const {
    if (is_undefined()) return "Undefined";
    if (is_none()) return "NoneType";
    if (is_boolean()) return "bool";
    if (is_integer()) return "int";
    if (is_real()) return "float";
    if (is_text()) return "str";
    if (is_dict()) return "dict";
    if (is_object()) return as_object()->type_name();
    switch (as_list().kind) {
        case List::Kind::tuple:
            return "tuple";
        case List::Kind::generator:
            return "generator";
        case List::Kind::view:
            return "dict_view";
        case List::Kind::range:
            return "range";
        default:
            return "list";
    }
}

const Value* Dict::find(std::string_view key) const {
    const auto found = text_index_.find(std::string(key));
    return found == text_index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::find(const Value& key) const {
    if (key.is_text()) return find(key.as_text().bytes());
    for (const auto& [known, value] : entries_) {
        if (!known.is_text() && equal(known, key)) return &value;
    }
    return nullptr;
}

void Dict::set(const Value& key, Value value) {
    if (key.is_dict() || (key.is_list() && key.as_list().kind == List::Kind::list)) {
        throw TemplateFailure{"unhashable type: '" + key.type_name() + "'"};
    }
    depth_ = std::max(depth_, checked_depth(1 + value.depth()));
    if (const Value* known = find(key)) {
        extent_ = checked_extent(extent_ - known->extent() + value.extent());
        *const_cast<Value*>(known) = std::move(value);
        return;
    }
    extent_ = checked_extent(extent_ + key.extent() + value.extent());
    if (key.is_text()) text_index_[key.as_text().bytes()] = entries_.size();
    entries_.emplace_back(key, std::move(value));
}

bool equal(const Value& left, const Value& right) { return equal_at(left, right, 0); }

int compare(const Value& left, const Value& right, std::string_view operation) {
    return compare_at(left, right, operation, 0);
}

}  // namespace nvllm::chat
