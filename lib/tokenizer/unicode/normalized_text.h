// Text on its way through normalizers, which remembers where in the original it comes from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

// `origins`, when kept, has for each byte of `text` the offset in the original that it comes from.
struct NormalizedText {
    std::string text;
    std::vector<size_t> origins;
    bool keeps_origins = false;
    size_t first_origin = 0;  // of the first byte; kept always

    NormalizedText(std::string_view original, bool keep_origins);
    // REQUIRES: keeps_origins, or at is 0.
    size_t origin(size_t at) const;
};

// Builds the next state of a text from the one before, left to right.
class Rewriting {
  public:
    explicit Rewriting(NormalizedText& text) : source_(text) { out_.reserve(text.text.size()); }

    std::string_view source() const { return source_.text; }
    // The bytes [begin, end) of the source, unchanged.
    void keep(size_t begin, size_t end);
    // Other bytes, which replace those that start at `from` in the source.
    void put(std::string_view bytes, size_t from);
    // Replaces the source. Call once.
    void finish();

  private:
    void note_first(size_t from);

    NormalizedText& source_;
    std::string out_;
    std::vector<size_t> origins_;
    size_t first_origin_ = 0;
    bool started_ = false;
};

}  // namespace nvllm
