// Text that remembers which of its bytes came from a request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/unicode/regex.h"

namespace nvllm::chat {

// UTF-8 text and the marked ranges in it, sorted, apart and not empty.
class TrackedText {
  public:
    TrackedText() = default;
    explicit TrackedText(std::string bytes, bool marked = false);

    const std::string& bytes() const { return bytes_; }
    size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }
    const std::vector<ByteRange>& marks() const { return marks_; }
    bool any_marked() const { return !marks_.empty(); }

    void append(const TrackedText& text);
    void append(std::string_view bytes, bool marked = false);
    TrackedText substr(size_t begin, size_t end) const;
    void reserve(size_t bytes) { bytes_.reserve(bytes); }

  private:
    void mark(size_t begin, size_t end);

    std::string bytes_;
    std::vector<ByteRange> marks_;
};

}  // namespace nvllm::chat
