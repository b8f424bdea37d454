// Values as text: Python's str() and repr(), and JSON as the templates' tojson writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/jinja/value.h"

namespace nvllm::chat {

// All of them throw TemplateFailure for a longer form. Texts may be held any number of times, so
// values are no bound for their forms; what is meant for a prompt is far shorter.
inline constexpr size_t kLongestForm = size_t{64} << 20;

// str(value). Marks of texts are kept; the text of anything that holds marked text is marked as a
// whole.
TrackedText text_of(const Value& value);
// repr(value), marked as a whole if anything in it is. Throws TemplateFailure where objects hold
// each other too deeply, or themselves.
TrackedText repr_of(const Value& value);
// The same with the keys of dictionaries in order, as pprint has it.
TrackedText sorted_repr_of(const Value& value);
// Of a dictionary, in the order of sorted(): keys that cannot be compared by their types' names.
std::vector<const std::pair<Value, Value>*> sorted_entries(const Dict& dict);
// pprint.pformat(value), marked as a whole if anything in it is.
TrackedText pretty_form_of(const Value& value);
// repr(number)
std::string repr_of(double value);

struct JsonStyle {
    bool ensure_ascii = false;
    bool indented = false;
    std::string indent;  // for one level
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool sort_keys = false;
};
// json.dumps(value). Throws TemplateFailure for what JSON cannot say.
TrackedText json_of(const Value& value, const JsonStyle& style);

// Whether any text within holds marks.
bool holds_marks(const Value& value);

}  // namespace nvllm::chat
