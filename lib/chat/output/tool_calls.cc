// Looks for the markers of a format, reads the calls there, and gives back as text what is none.
#include "lib/chat/output/tool_calls.h"

#include <algorithm>

namespace nvllm::output {
namespace {

enum class MarkerKind { none, section_begin, section_end, call_begin };

struct Marker {
    MarkerKind kind = MarkerKind::none;
    std::string_view text = {};
};

// Attempts that ran into the end of the text before the rest counts as text: each read all of it.
constexpr int kMaxCutAttempts = 32;

class MarkerSearch {
  public:
    MarkerSearch(const ToolCallFormat& format, Answer& answer) : format_(format), answer_(answer) {
        add(format.section_begins, MarkerKind::section_begin);
        add(format.section_ends, MarkerKind::section_end);
        add(format.call_begins, MarkerKind::call_begin);
        num_anywhere_ = markers_.size();
        add(format.first_call_begins, MarkerKind::call_begin);
        for (const Marker& marker : markers_) first_bytes_ += marker.text.front();
    }

    // The marker that is next, and how many bytes must be there to know: 0 where it is known.
    Marker next(const TextReader& in, size_t& bytes_needed) const;
    // Gives all text before the next byte that a marker may begin with.
    void give_plain_text(TextReader& in);
    void give_text(std::string_view text) {
        // White space after a call in its section is the form's own.
        while (in_section && after_call_ && !text.empty() && is_space(text.front()))
            text.remove_prefix(1);
        answer_.content(text);
        if (trimmed(text).empty()) return;
        begun_ = true;
        has_text_ = true;
        after_call_ = false;
        if (!in_section) num_calls_in_section = 0;
    }

    bool has_text() const { return has_text_; }

    bool in_section = false;
    bool section_is_held = false;
    size_t num_calls_in_section = 0;
    int num_cut_attempts = 0;
    void call_was_given() {
        begun_ = true;
        after_call_ = true;
    }

  private:
    void add(const std::vector<std::string_view>& texts, MarkerKind kind) {
        for (const std::string_view text : texts) markers_.push_back({kind, text});
    }
    bool applies(const Marker& marker) const {
        if (marker.kind == MarkerKind::section_end) return num_calls_in_section > 0;
        if (marker.kind == MarkerKind::call_begin) return in_section || !format_.only_in_section;
        return true;
    }

    const ToolCallFormat& format_;
    Answer& answer_;
    std::vector<Marker> markers_;
    size_t num_anywhere_ = 0;
    std::string first_bytes_;
    bool begun_ = false;
    bool has_text_ = false;
    bool after_call_ = false;
};

Marker MarkerSearch::next(const TextReader& in, size_t& bytes_needed) const {
    const std::string_view unread = in.unread();
    bytes_needed = 0;
    const size_t count = begun_ ? num_anywhere_ : markers_.size();
    for (size_t i = 0; i < count; ++i) {
        const Marker& marker = markers_[i];
        if (!applies(marker)) continue;
        if (unread.starts_with(marker.text)) return marker;
        if (marker.text.starts_with(unread) && !in.ended()) bytes_needed = unread.size() + 1;
    }
    return {};
}

void MarkerSearch::give_plain_text(TextReader& in) {
    const std::string_view unread = in.unread();
    const size_t length = std::min(unread.size(), unread.find_first_of(first_bytes_));
    give_text(unread.substr(0, length));
    in.skip(length);
    in.forget();
}

Reading<Marker> next_marker(TextReader& in, MarkerSearch& search) {
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return Marker{};
        search.give_plain_text(in);
        if (in.unread().empty()) continue;
        size_t bytes_needed = 0;
        const Marker marker = search.next(in, bytes_needed);
        if (marker.kind != MarkerKind::none) co_return marker;
        if (bytes_needed > 0) {
            co_await in.has(bytes_needed);
            continue;
        }
        search.give_text(in.unread().substr(0, 1));
        in.skip(1);
    }
}

// What stands between two calls, if a further one follows; else nothing is read.
Reading<bool> skip_separators(TextReader& in, const ToolCallFormat& format,
                              const MarkerSearch& search) {
    if (format.separators.empty()) co_return false;
    const size_t start = in.position();
    bool more = co_await skip_space(in);
    if (more && format.separators.find(in.peek()) != std::string_view::npos) {
        in.skip(1);
        more = co_await skip_space(in);
    }
    Marker marker;
    for (size_t bytes_needed = 1; more && bytes_needed > 0;) {
        marker = search.next(in, bytes_needed);
        if (marker.kind != MarkerKind::none) break;
        if (bytes_needed > 0) co_await in.has(bytes_needed);
    }
    const bool follows = marker.kind == MarkerKind::call_begin;
    if (!follows) in.rewind(start);
    co_return follows;
}

// Whether what begins at `marker` cannot break.
Reading<bool> is_held(TextReader& in, const HeldCalls& held, MarkerSearch& search, Marker marker) {
    const size_t start = in.position();
    const bool is_call = marker.kind == MarkerKind::call_begin;
    if (is_call && search.in_section && search.section_is_held) co_return true;
    bool begins = false;
    if (!held.begin.empty() && !(held.only_at_start && search.has_text())) {
        begins = co_await in.take(held.begin);
        in.rewind(start);
    }
    if (!is_call) search.section_is_held = begins;
    co_return begins ||
        std::find(held.positions.begin(), held.positions.end(), start) != held.positions.end();
}

// Reads the call or calls at `marker`; whether they are whole.
Reading<bool> read_at_marker(TextReader& in, const ToolCallFormat& format,
                             const ParameterTypes& types, MarkerSearch& search, CallSink& sink,
                             Marker marker) {
    if (marker.kind == MarkerKind::section_begin) {
        in.skip(marker.text.size());
        search.in_section = true;
        search.num_calls_in_section = 0;
        Marker call;
        for (size_t bytes_needed = 1; call.kind == MarkerKind::none;) {
            const bool more = co_await skip_space(in);
            if (!more) co_return false;
            call = search.next(in, bytes_needed);
            if (bytes_needed == 0 && call.kind != MarkerKind::call_begin) co_return false;
            if (bytes_needed > 0 && call.kind == MarkerKind::none) co_await in.has(bytes_needed);
        }
    }
    const bool whole = co_await format.read_calls(in, types, sink);
    co_return whole;
}

}  // namespace

Reading<bool> read_content_and_calls(TextReader& in, const ToolCallFormat& format,
                                     const ParameterTypes& types, const HeldCalls& held,
                                     CallSink& sink, Answer& answer) {
    MarkerSearch search(format, answer);
    while (true) {
        const Marker marker = co_await next_marker(in, search);
        if (marker.kind == MarkerKind::none) co_return true;
        const size_t start = in.position();
        if (marker.kind == MarkerKind::section_end) {
            in.skip(marker.text.size());
            search.in_section = false;
            search.num_calls_in_section = 0;
            answer.border();
            continue;
        }
        bool whole = false;
        sink.start(start, false);
        if (search.num_cut_attempts < kMaxCutAttempts) {
            const bool cannot_break = co_await is_held(in, held, search, marker);
            sink.start(start, cannot_break);
            in.reset_met_end();
            whole = co_await read_at_marker(in, format, types, search, sink, marker);
        }
        if (whole) {
            search.num_calls_in_section += sink.num_calls();
            search.call_was_given();
            sink.commit();
            co_await skip_separators(in, format, search);
            in.forget();
            continue;
        }
        if (sink.is_held() && sink.num_calls() > 0 && in.met_end()) {
            in.skip(in.unread().size());  // the end cut it: what was given of it stays
            continue;
        }
        if (in.ended() && in.unread().empty()) ++search.num_cut_attempts;
        in.rewind(start);
        search.give_text(marker.text);
        in.skip(marker.text.size());
    }
}

}  // namespace nvllm::output
