// Origins are stored per byte only when the caller asks for them: most encodings need the first
// one.
#include "lib/tokenizer/unicode/normalized_text.h"

#include <numeric>

namespace nvllm {

NormalizedText::NormalizedText(std::string_view original, bool keep_origins)
    : text(original), keeps_origins(keep_origins) {
    if (!keep_origins) return;
    origins.resize(original.size());
    std::iota(origins.begin(), origins.end(), size_t{0});
}

size_t NormalizedText::origin(size_t at) const {
    if (at < origins.size()) return origins[at];
    return origins.empty() ? first_origin : origins.back() + 1;
}

void Rewriting::note_first(size_t from) {
    if (started_) return;
    started_ = true;
    // Without origins per byte, an offset behind the start only needs to differ from it.
    first_origin_ =
        from == 0 ? source_.first_origin
                  : (source_.keeps_origins ? source_.origin(from) : source_.first_origin + from);
}

void Rewriting::keep(size_t begin, size_t end) {
    if (begin >= end) return;
    note_first(begin);
    out_.append(source_.text, begin, end - begin);
    if (!source_.keeps_origins) return;
    origins_.insert(origins_.end(), source_.origins.begin() + static_cast<ptrdiff_t>(begin),
                    source_.origins.begin() + static_cast<ptrdiff_t>(end));
}

void Rewriting::put(std::string_view bytes, size_t from) {
    if (bytes.empty()) return;
    note_first(from);
    out_.append(bytes);
    if (source_.keeps_origins) origins_.insert(origins_.end(), bytes.size(), source_.origin(from));
}

void Rewriting::finish() {
    source_.text = std::move(out_);
    source_.origins = std::move(origins_);
    source_.first_origin = first_origin_;
}

}  // namespace nvllm
