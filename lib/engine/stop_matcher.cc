// Search and hold-back of stop strings.
#include "lib/engine/stop_matcher.h"

#include <algorithm>

namespace nvllm {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings)
    : stop_strings_(std::move(stop_strings)) {
    for (const std::string& stop : stop_strings_) longest_ = std::max(longest_, stop.size());
}

std::optional<StopMatcher::Match> StopMatcher::find(std::string_view text,
                                                    size_t already_searched) const {
    std::optional<Match> earliest;
    for (const std::string& stop : stop_strings_) {
        // A new match ends in the new text, so it begins at most its own length before it.
        const size_t from =
            already_searched >= stop.size() ? already_searched - stop.size() + 1 : 0;
        const size_t begin = text.find(stop, from);
        if (begin == std::string_view::npos) continue;
        if (!earliest || begin < earliest->begin) earliest = Match{begin, begin + stop.size()};
    }
    return earliest;
}

size_t StopMatcher::safe_length(std::string_view text) const {
    const size_t longest_held = std::min(text.size(), longest_ > 0 ? longest_ - 1 : 0);
    for (size_t held = longest_held; held > 0; --held) {
        const std::string_view tail = text.substr(text.size() - held);
        for (const std::string& stop : stop_strings_) {
            if (held < stop.size() && std::string_view(stop).substr(0, held) == tail) {
                return text.size() - held;
            }
        }
    }
    return text.size();
}

}  // namespace nvllm
