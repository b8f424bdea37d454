// Reads calls whose parameters stand between tags.
#include "lib/chat/output/tagged_calls.h"

#include <algorithm>
#include <limits>

#include "lib/base/json.h"

namespace nvllm::output {
namespace {

constexpr size_t kMaxTagBytes = 256;

struct TaggedCall {
    const TaggedCallForm& form;
    const ParameterTypes& types;
    ArgumentsWriter arguments;
    std::string name = {};
};

struct TaggedValue {
    std::string key = {};
    bool is_text = false;  // says the tag
    std::string text = {};
    size_t num_given = 0;  // bytes of the text
};

bool is_name(std::string_view text) {
    return !text.empty() && text.find_first_of(" \t\r\n<>\"") == std::string_view::npos;
}

Reading<bool> read_name(TextReader& in, TaggedCall& call) {
    bool more = true;
    if (!call.form.name_end.empty()) {
        more = co_await read_until(in, call.form.name_end, call.name, kMaxTagBytes);
    } else {
        while (more && call.name.size() < kMaxTagBytes) {
            more = co_await in.has(1);
            if (!more || in.peek() == '\n' || in.peek() == '<') break;
            call.name += in.peek();
            in.skip(1);
        }
    }
    call.name = trimmed(call.name);
    co_return more&& is_name(call.name);
}

// Whether `tag` comes next after white space; `counts_cut`: or its beginning, where the text ends.
// Reads nothing.
Reading<bool> comes_next(TextReader& in, std::string_view tag, bool counts_cut) {
    const size_t start = in.position();
    co_await skip_space(in);
    const bool found = co_await in.take(tag);
    const bool is_cut = !found && tag.starts_with(in.unread());
    in.rewind(start);
    co_return found || (is_cut && counts_cut);
}

Reading<bool> only_space_left(TextReader& in) {
    const size_t start = in.position();
    const bool more = co_await skip_space(in);
    in.rewind(start);
    co_return !more;
}

// Whether a call goes on or ends here, so that what was read before was the whole of a value.
Reading<bool> is_after_value(TextReader& in, const TaggedCall& call) {
    const bool is_held = call.arguments.is_held();
    const bool parameter = co_await comes_next(in, call.form.parameter_begin, is_held);
    if (parameter) co_return true;
    const bool end = co_await comes_next(in, call.form.call_end, is_held);
    if (end) co_return true;
    const bool text_end = co_await only_space_left(in);
    co_return text_end;
}

// At the start of a line in a value: whether a further parameter of the function begins there, or
// the call ends, without the value's own end.
Reading<bool> ends_without_tag(TextReader& in, TaggedCall& call) {
    const size_t start = in.position();
    bool ends = false;
    const bool parameter = co_await in.take(call.form.parameter_begin);
    if (parameter) {
        std::string key;
        const bool closed = co_await read_until(in, call.form.key_end, key, kMaxTagBytes);
        const auto given = call.arguments.names();
        ends = closed && is_name(key) && !call.types.is_foreign(call.name, key) &&
               std::find(given.begin(), given.end(), key) == given.end();
    } else {
        const bool end = co_await in.take(call.form.call_end);
        if (end) ends = true;
    }
    in.rewind(start);
    co_return ends;
}

std::string_view without_line_breaks(std::string_view value, TaggedCallForm::LineBreaks rule) {
    using LineBreaks = TaggedCallForm::LineBreaks;
    const bool before = value.starts_with("\n");
    const bool after = value.size() > 1 && value.ends_with("\n");
    if (rule == LineBreaks::value) return value;
    if (rule == LineBreaks::form_if_both && !(before && after)) return value;
    if (before) value.remove_prefix(1);
    if (value.ends_with("\n")) value.remove_suffix(1);
    return value;
}

// What of a value is certain while it is read.
std::string_view certain_text(std::string_view value, TaggedCallForm::LineBreaks rule) {
    using LineBreaks = TaggedCallForm::LineBreaks;
    const bool is_open = rule == LineBreaks::form_if_both && value.starts_with("\n");
    return is_open ? std::string_view() : without_line_breaks(value, rule);
}

void give_text(TaggedCall& call, TaggedValue& value) {
    const std::string_view text = certain_text(value.text, call.form.line_breaks);
    if (text.size() <= value.num_given) return;
    if (!value.is_text && !call.types.is_text(call.name, value.key, text)) return;
    call.arguments.text_piece(text.substr(value.num_given));
    value.num_given = text.size();
}

Reading<bool> read_value(TextReader& in, TaggedCall& call, TaggedValue& value) {
    const TaggedCallForm& form = call.form;
    while (true) {
        if (in.unread().empty()) give_text(call, value);
        const bool some = co_await in.has(1);
        if (!some) co_return false;
        const char c = in.peek();
        if (c == form.value_end.front()) {
            const bool closed = co_await in.take(form.value_end);
            if (closed) {
                const bool whole = co_await is_after_value(in, call);
                if (whole) co_return true;
                value.text += form.value_end;  // the value's own text
                continue;
            }
            if (form.value_end.starts_with(in.unread())) {  // the text ends in it
                give_text(call, value);
                in.skip(in.unread().size());
                co_return false;
            }
        }
        value.text += c;
        in.skip(1);
        if (c != '\n' || !form.value_end_may_be_missing) continue;
        const bool ends = co_await ends_without_tag(in, call);
        if (ends) co_return true;
    }
}

// From the key on.
Reading<bool> read_parameter(TextReader& in, TaggedCall& call) {
    TaggedValue value;
    // A grammar may let a key be of any length.
    const size_t max_bytes =
        call.arguments.is_held() ? std::numeric_limits<size_t>::max() : kMaxTagBytes;
    const bool named = co_await read_until(in, call.form.key_end, value.key, max_bytes);
    if (!named) co_return false;
    std::string attributes;
    if (!call.form.attributes_end.empty()) {
        const bool closed =
            co_await read_until(in, call.form.attributes_end, attributes, kMaxTagBytes);
        if (!closed) co_return false;
    }
    if (!call.form.value_begin.empty()) {
        co_await skip_space(in);
        const bool begun = co_await in.take(call.form.value_begin);
        if (!begun) co_return false;
    }
    value.key = trimmed(value.key);
    value.is_text = attributes.find("string=\"true\"") != std::string::npos;
    call.arguments.begin_value(value.key);
    const bool whole = co_await read_value(in, call, value);
    if (!whole) co_return false;
    const std::string_view text = without_line_breaks(value.text, call.form.line_breaks);
    call.arguments.end_value(value.is_text ? json_quoted(text)
                                           : call.types.json_of(call.name, value.key, text));
    co_return !value.key.empty();
}

// Where neither a parameter nor the end of the call comes.
bool is_cut_but_whole(TextReader& in, const TaggedCall& call) {
    if (!call.form.call_end_may_be_missing || !in.ended()) return false;
    if (!call.form.call_end.starts_with(in.unread()) || call.arguments.names().empty())
        return false;
    in.skip(in.unread().size());
    return call.types.has_required(call.name, call.arguments.names());
}

}  // namespace

Reading<bool> read_tagged_call(TextReader& in, const TaggedCallForm& form,
                               const ParameterTypes& types, CallSink& sink) {
    in.skip(form.call_begin.size());
    TaggedCall call{form, types, ArgumentsWriter(sink)};
    const bool named = co_await read_name(in, call);
    if (!named) co_return false;
    sink.begin("", call.name);
    while (true) {
        co_await skip_space(in);
        const bool parameter = co_await in.take(form.parameter_begin);
        if (parameter) {
            const bool read = co_await read_parameter(in, call);
            if (!read) co_return false;
            continue;
        }
        const bool ended = co_await in.take(form.call_end);
        if (!ended && !is_cut_but_whole(in, call)) co_return false;
        call.arguments.end();
        co_return true;
    }
}

}  // namespace nvllm::output
