// Search and hold-back of stop strings.
#include "lib/engine/stop_matcher.h"

#include <algorithm>

namespace nvllm {
namespace {

std::vector<uint32_t> borders_of(std::string_view text) {
    std::vector<uint32_t> borders(text.size(), 0);
    uint32_t length = 0;
    for (size_t i = 1; i < text.size(); ++i) {
        while (length > 0 && text[i] != text[length]) length = borders[length - 1];
        if (text[i] == text[length]) ++length;
        borders[i] = length;
    }
    return borders;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stop_strings) {
    for (std::string& text : stop_strings) {
        std::vector<uint32_t> borders = borders_of(text);
        stops_.push_back({std::move(text), std::move(borders)});
    }
}

std::optional<StopMatcher::Match> StopMatcher::find(std::string_view text,
                                                    size_t already_searched) const {
    std::optional<Match> earliest;
    for (size_t index = 0; index < stops_.size(); ++index) {
        const std::string& stop = stops_[index].text;
        // A new match ends in the new text, so it begins at most its own length before it.
        const size_t from =
            already_searched >= stop.size() ? already_searched - stop.size() + 1 : 0;
        const size_t begin = text.find(stop, from);
        if (begin == std::string_view::npos) continue;
        if (!earliest || begin < earliest->begin) {
            earliest = Match{begin, begin + stop.size(), index};
        }
    }
    return earliest;
}

size_t StopMatcher::Stop::length_begun(std::string_view tail) const {
    size_t length = 0;
    for (const char letter : tail) {
        while (length > 0 && letter != text[length]) length = borders[length - 1];
        if (letter == text[length]) ++length;
    }
    return length;
}

size_t StopMatcher::safe_length(std::string_view text) const {
    size_t held = 0;
    for (const Stop& stop : stops_) {
        const size_t most = std::min(text.size(), stop.text.size() - 1);
        held = std::max(held, stop.length_begun(text.substr(text.size() - most)));
    }
    return text.size() - held;
}

}  // namespace nvllm
