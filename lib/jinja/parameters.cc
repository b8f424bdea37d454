// Arguments of calls: matched to the names of parameters, and read as integers and slices.
#include <algorithm>

#include "lib/jinja/interpreter.h"
#include "lib/jinja/text_form.h"

namespace nvllm::chat {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
    if (arguments.positional.size() > names_.size()) {
        fail(function_ + "() takes at most " + std::to_string(names_.size()) + " arguments");
    }
    for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto found = std::find(names_.begin(), names_.end(), name);
        if (found == names_.end())
            fail(function_ + "() got an unexpected keyword argument '" + name + "'");
        values_[static_cast<size_t>(found - names_.begin())] = &value;
    }
}

const Value& Parameters::required(size_t index) const {
    if (values_[index] == nullptr) {
        fail(function_ + "() missing a required argument: '" + std::string(names_[index]) + "'");
    }
    return *values_[index];
}

bool Parameters::truth(size_t index, bool otherwise) const {
    return values_[index] != nullptr ? values_[index]->truth() : otherwise;
}

int64_t Parameters::integer(size_t index, int64_t otherwise) const {
    return values_[index] != nullptr ? integer_of(*values_[index], names_[index]) : otherwise;
}

TrackedText Parameters::text(size_t index, std::string_view otherwise) const {
    return values_[index] != nullptr ? text_of(*values_[index])
                                     : TrackedText(std::string(otherwise));
}

int64_t integer_of(const Value& value, std::string_view what) {
    if (value.is_undefined()) fail(value.undefined_message());
    if (!value.is_integer())
        fail(std::string(what) + " must be an integer, not " + value.type_name());
    return value.as_integer();
}

std::vector<size_t> slice_indices(size_t size, const Value& first, const Value& last,
                                  const Value& step) {
    const auto length = static_cast<int64_t>(size);
    const auto given = [](const Value& value) { return !value.is_none() && !value.is_undefined(); };
    const int64_t stride = given(step) ? integer_of(step, "a slice's step") : 1;
    if (stride == 0) fail("slice step cannot be zero");
    const int64_t lowest = stride > 0 ? 0 : -1;
    const int64_t highest = stride > 0 ? length : length - 1;
    const auto bound = [&](const Value& value, int64_t otherwise) {
        if (!given(value)) return otherwise;
        int64_t at = integer_of(value, "a slice's bound");
        if (at < 0) at = at < -length ? lowest : std::max(at + length, lowest);
        return std::clamp(at, lowest, highest);
    };
    const int64_t from = bound(first, stride > 0 ? lowest : highest);
    const int64_t to = bound(last, stride > 0 ? highest : lowest);
    std::vector<size_t> indices;
    // A stride beyond the length takes one element at most, and must not overflow.
    const int64_t safe = std::clamp<int64_t>(stride, -length - 1, length + 1);
    for (int64_t at = from; safe > 0 ? at < to : at > to; at += safe)
        indices.push_back(static_cast<size_t>(at));
    return indices;
}

}  // namespace nvllm::chat
