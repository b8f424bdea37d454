// Splits reasoning between tags from what follows it.
#include "lib/chat/output/reasoning_split.h"

#include <algorithm>

namespace nvllm::output {
namespace {

// Reads one of `tags`, if one comes next.
Reading<bool> take_one(TextReader& in, const std::vector<std::string_view>& tags) {
    for (const std::string_view tag : tags) {
        const bool found = co_await in.take(tag);
        if (found) co_return true;
    }
    co_return false;
}

// An opening tag at the very start, or nothing is read.
Reading<bool> take_begin(TextReader& in, const ReasoningTags& tags) {
    const size_t start = in.position();
    co_await skip_space(in);
    const bool found = co_await take_one(in, tags.begins);
    if (!found) in.rewind(start);
    co_return found;
}

bool may_begin(const ReasoningTags& tags, char c) {
    const auto begins = [c](std::string_view tag) { return tag.front() == c; };
    return std::any_of(tags.ends.begin(), tags.ends.end(), begins) ||
           std::any_of(tags.content_begins.begin(), tags.content_begins.end(), begins);
}

void give_plain_text(TextReader& in, const ReasoningTags& tags, Answer& answer) {
    const std::string_view unread = in.unread();
    size_t length = 0;
    while (length < unread.size() && !may_begin(tags, unread[length])) ++length;
    answer.reasoning(unread.substr(0, length));
    in.skip(length);
    in.forget();
}

// Whether a tag ended it.
Reading<bool> read_reasoning(TextReader& in, const ReasoningTags& tags, Answer& answer) {
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return false;
        give_plain_text(in, tags, answer);
        if (in.unread().empty()) continue;
        const bool ended = co_await take_one(in, tags.ends);
        if (ended) co_return true;
        const size_t start = in.position();
        const bool content = co_await take_one(in, tags.content_begins);
        in.rewind(start);
        if (content) co_return false;
        answer.reasoning(in.unread().substr(0, 1));
        in.skip(1);
    }
}

}  // namespace

bool prompt_opens(const ReasoningTags& tags, std::string_view prompt_end) {
    const std::string_view prompt = trimmed(prompt_end);
    return std::any_of(tags.begins.begin(), tags.begins.end(),
                       [&](std::string_view tag) { return prompt.ends_with(tag); });
}

Reading<bool> split_reasoning(TextReader& in, const ReasoningTags& tags, Answer& answer,
                              const std::function<void(std::string_view)>& give_content,
                              bool& in_reasoning, HeldCalls& held) {
    const bool begun = co_await take_begin(in, tags);
    in_reasoning = in_reasoning || begun;
    if (in_reasoning) {
        const bool closed = co_await read_reasoning(in, tags, answer);
        if (!closed) held.begin.clear();
        in_reasoning = false;
        answer.border();
    }
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return true;
        give_content(in.unread());
        in.skip(in.unread().size());
        in.forget();
    }
}

}  // namespace nvllm::output
