// Reads harmony's messages: "<|start|>assistant<|channel|>final<|message|>text<|end|>".
#include "lib/chat/output/harmony.h"

#include <algorithm>
#include <array>

#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::array<std::string_view, 3> kEnds = {"<|end|>", "<|call|>", "<|return|>"};
// What may follow the role in a header.
constexpr std::array<std::string_view, 4> kHeaderParts = {kChannel, kMessage, "<|constrain|>",
                                                          " to="};
constexpr size_t kMaxHeaderBytes = 1024;

struct Header {
    std::string text;  // what the model wrote of it
    std::string channel;
    std::string recipient;
};

std::string word_at(std::string_view text, size_t from) {
    size_t end = from;
    while (end < text.size() && !is_space(text[end]) && text[end] != '<') ++end;
    return std::string(text.substr(from, end - from));
}

Header parsed_header(std::string_view before, std::string text) {
    Header header;
    const std::string all = std::string(before) + text;
    header.text = std::move(text);
    const size_t channel = all.find(kChannel);
    if (channel != std::string::npos) header.channel = word_at(all, channel + kChannel.size());
    const size_t recipient = all.find(" to=");
    if (recipient != std::string::npos) header.recipient = word_at(all, recipient + 4);
    return header;
}

// Of the prompt's own message, in which the model goes on.
std::string begun_header(const std::string& prompt_end) {
    const size_t start = prompt_end.rfind(kStart);
    return start == std::string::npos ? "" : prompt_end.substr(start);
}

class HarmonyReader {
  public:
    HarmonyReader(const HarmonyOptions& options, CallSink& sink, Answer& answer, bool& in_reasoning)
        : options_(options), sink_(sink), answer_(answer), in_reasoning_(in_reasoning) {}

    // The function that a message calls; empty where it calls none.
    std::string called(const Header& header) const {
        constexpr std::string_view kPrefix = "functions.";
        if (!options_.finds_calls) return {};
        if (header.recipient.starts_with(kPrefix)) return header.recipient.substr(kPrefix.size());
        const auto& names = options_.functions;
        const bool offered = std::find(names.begin(), names.end(), header.recipient) != names.end();
        return offered ? header.recipient : "";
    }
    void begin_message(const Header& header, bool as_written) {
        in_reasoning_ = !as_written && header.channel == "analysis";
        if (in_reasoning_) {
            answer_.separate_reasoning();
        } else {
            answer_.separate_content();
            has_content_ = true;
        }
        if (as_written) answer_.content(header.text);
    }
    void give(std::string_view text) {
        if (in_reasoning_) {
            answer_.reasoning(text);
        } else {
            answer_.content(text);
        }
    }
    // A call begins at a position of the text.
    CallSink& start_call(const Header& header, const std::string& function, size_t position) {
        const HeldCalls& held = options_.held;
        const bool begins = !held.begin.empty() && !(held.only_at_start && has_content_) &&
                            header.text.ends_with(held.begin + function + held.after_name);
        const bool is_known = std::find(held.positions.begin(), held.positions.end(), position) !=
                              held.positions.end();
        sink_.start(position, begins || is_known);
        sink_.begin("", function);
        return sink_;
    }
    void end_message() { in_reasoning_ = false; }
    // A header that was cut off is nothing yet, unless it is a call's.
    void give_broken_header(std::string_view text, bool cut) {
        if (!cut || text.find(" to=") != std::string_view::npos) answer_.content(text);
    }

  private:
    const HarmonyOptions& options_;
    CallSink& sink_;
    Answer& answer_;
    bool& in_reasoning_;
    bool has_content_ = false;
};

// Reads the end of a message. The one that was read; empty where none comes.
Reading<std::string_view> take_end(TextReader& in) {
    for (const std::string_view end : kEnds) {
        const bool found = co_await in.take(end);
        if (found) co_return end;
    }
    co_return std::string_view();
}

Reading<bool> comes_header(TextReader& in) {
    const size_t start = in.position();
    for (const std::string_view part : kHeaderParts) {
        const bool found = co_await in.take(part);
        in.rewind(start);
        if (found) co_return true;
    }
    const bool found = co_await in.take(kStart);
    in.rewind(start);
    co_return found;
}

// Gives the text up to the end of the message, and, where `as_written`, the end as well.
Reading<bool> read_body(TextReader& in, HarmonyReader& reader, bool as_written) {
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return false;
        const std::string_view unread = in.unread();
        const size_t length = std::min(unread.size(), unread.find('<'));
        reader.give(unread.substr(0, length));
        in.skip(length);
        in.forget();
        if (in.unread().empty()) continue;
        const std::string_view end = co_await take_end(in);
        if (!end.empty()) {
            if (as_written) reader.give(end);
            co_return true;
        }
        const size_t start = in.position();
        bool next = co_await in.take(kStart);
        if (!next) next = co_await in.take(kChannel);  // the end before it is missing
        in.rewind(start);
        if (next) co_return true;
        reader.give("<");
        in.skip(1);
    }
}

// The arguments of a call, and the end of its message.
Reading<bool> read_arguments(TextReader& in, CallSink& sink) {
    const bool more = co_await skip_space(in);
    if (more && in.peek() == '<') {  // nothing at all
        sink.arguments("{}");
        sink.end();
    } else {
        const bool read = co_await read_json_arguments(in, sink);
        if (!read) co_return false;
    }
    co_await skip_space(in);
    const std::string_view end = co_await take_end(in);
    if (!end.empty()) co_return true;
    const size_t start = in.position();
    const bool next = co_await in.take(kStart);
    in.rewind(start);
    co_return next || (in.ended() && in.unread().empty());
}

Reading<bool> read_message(TextReader& in, HarmonyReader& reader, const Header& header) {
    const std::string function = reader.called(header);
    const size_t start = in.position();
    if (!function.empty()) {
        CallSink& sink = reader.start_call(header, function, start);
        in.reset_met_end();
        const bool whole = co_await read_arguments(in, sink);
        if (whole) {
            sink.commit();
            co_return true;
        }
        if (sink.is_held() && in.met_end()) {
            in.skip(in.unread().size());  // the end cut it: what was given of it stays
            co_return true;
        }
        in.rewind(start);
    }
    const bool as_written = !header.recipient.empty() && header.channel != "analysis";
    reader.begin_message(header, as_written || !function.empty());
    co_await read_body(in, reader, as_written || !function.empty());
    reader.end_message();
    co_return true;
}

}  // namespace

Reading<bool> read_harmony(TextReader& in, const HarmonyOptions& options, CallSink& sink,
                           Answer& answer, bool& in_reasoning) {
    HarmonyReader reader(options, sink, answer, in_reasoning);
    std::string before = begun_header(options.prompt_end);
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return true;
        const size_t message = before.find(kMessage);
        const bool header_comes = co_await comes_header(in);
        Header header = parsed_header(before, "");
        if (message == std::string::npos && header_comes) {
            std::string text;
            const bool whole = co_await read_until(in, kMessage, text, kMaxHeaderBytes);
            if (!whole) {
                reader.give_broken_header(text, in.ended() && in.unread().empty());
                continue;
            }
            header = parsed_header(before, text + std::string(kMessage));
        }
        before.clear();
        co_await read_message(in, reader, header);
    }
}

}  // namespace nvllm::output
