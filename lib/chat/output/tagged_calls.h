// Calls whose parameters stand between tags, as plain text.
#pragma once

#include <string_view>

#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

// <invoke name="NAME"><parameter name="KEY">VALUE</parameter>...</invoke>, and what other formats
// write in its place.
struct TaggedCallForm {
    std::string_view call_begin;       // before the name
    std::string_view name_end;         // empty: the name ends at a line break or at a tag
    std::string_view parameter_begin;  // before the key
    std::string_view key_end;
    std::string_view attributes_end = {};  // after the key, where attributes may follow it
    std::string_view value_begin = {};     // between key and value, after white space
    std::string_view value_end;
    std::string_view call_end;
    // Line breaks that belong to the form and not to the value: one before and one after it.
    enum class LineBreaks { value, form, form_if_both } line_breaks = LineBreaks::value;
    // A value also ends where the next parameter or the end of the call stands on a line of its
    // own.
    bool value_end_may_be_missing = false;
    // A call whose required parameters are there is whole where the text ends.
    bool call_end_may_be_missing = false;
};

Reading<bool> read_tagged_call(TextReader& in, const TaggedCallForm& form,
                               const ParameterTypes& types, CallSink& sink);

}  // namespace nvllm::output
