// The search from the end of the text to its beginning.
#include "lib/schedule/speculation/ngram_proposer.h"

#include <algorithm>

namespace nvllm {

EarlierMatch find_earlier(std::span<const int32_t> text, int32_t least, int32_t most) {
    EarlierMatch best;
    if (text.size() < 2) return best;
    const int32_t last = text.back();
    for (size_t end = text.size() - 1; end > 0; --end) {
        if (text[end - 1] != last) continue;
        const auto limit = std::min(static_cast<size_t>(most), end);
        size_t length = 1;
        while (length < limit && text[end - 1 - length] == text[text.size() - 1 - length]) ++length;
        if (static_cast<int32_t>(length) <= best.length) continue;
        best = {static_cast<int32_t>(length), end};
        if (best.length == most) break;
    }
    return best.length < least ? EarlierMatch{} : best;
}

DraftTokens copy_on(std::span<const int32_t> text, const EarlierMatch& match, int32_t count) {
    DraftTokens drafts;
    if (match.length == 0) return drafts;
    const size_t num_text = text.size() - match.end;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        drafts.token_ids.push_back(i < num_text ? text[match.end + i]
                                                : drafts.token_ids[i - num_text]);
    }
    return drafts;
}

DraftTokens NgramProposer::propose(const Sequence& sequence, const std::string&) {
    const std::span<const int32_t> text = sequence.token_ids;
    return copy_on(text, find_earlier(text, least_, most_), num_drafts_);
}

}  // namespace nvllm
