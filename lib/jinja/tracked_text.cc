// Marks follow text through joining and cutting; neighbouring marks become one.
#include "lib/jinja/tracked_text.h"

#include <algorithm>

namespace nvllm::chat {

TrackedText::TrackedText(std::string bytes, bool marked) : bytes_(std::move(bytes)) {
    if (marked) mark(0, bytes_.size());
}

void TrackedText::mark(size_t begin, size_t end) {
    if (begin >= end) return;
    if (!marks_.empty() && marks_.back().end == begin) {
        marks_.back().end = end;
    } else {
        marks_.push_back({begin, end});
    }
}

void TrackedText::append(const TrackedText& text) {
    const size_t shift = bytes_.size();
    bytes_ += text.bytes_;
    for (const ByteRange& range : text.marks_) mark(shift + range.begin, shift + range.end);
}

void TrackedText::append(std::string_view bytes, bool marked) {
    const size_t begin = bytes_.size();
    bytes_ += bytes;
    if (marked) mark(begin, bytes_.size());
}

TrackedText TrackedText::substr(size_t begin, size_t end) const {
    TrackedText part;
    begin = std::min(begin, bytes_.size());
    end = std::clamp(end, begin, bytes_.size());
    part.bytes_ = bytes_.substr(begin, end - begin);
    auto at = std::partition_point(marks_.begin(), marks_.end(),
                                   [&](const ByteRange& range) { return range.end <= begin; });
    for (; at != marks_.end() && at->begin < end; ++at) {
        part.mark(std::max(at->begin, begin) - begin, std::min(at->end, end) - begin);
    }
    return part;
}

}  // namespace nvllm::chat
