// Viterbi from left to right: the best way to reach each byte offset is kept, and read back from
// the end.
#include "lib/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"

namespace nvllm {
namespace {

constexpr double kUnknownPenalty = 10.0;

template <typename Real>
struct Arrival {
    Real score = 0;
    int32_t id = 0;
    uint32_t length = 0;  // of the token that arrives here; 0 while there is none
    bool unknown = false;

    void offer(Real candidate, int32_t candidate_id, size_t candidate_length, bool is_unknown) {
        if (length != 0 && candidate <= score) return;
        *this = {candidate, candidate_id, static_cast<uint32_t>(candidate_length), is_unknown};
    }
};

}  // namespace

template <typename Real>
std::vector<UnigramToken> best_segmentation(std::string_view text, const PrefixTrie& trie,
                                            const std::vector<Real>& scores, Real unknown_score,
                                            EncodeWork& work) {
    std::vector<Arrival<Real>> best(text.size() + 1);
    for (size_t at = 0; at < text.size();) {
        const size_t character = utf8::length_from_lead(static_cast<unsigned char>(text[at]));
        const Real here = best[at].score;
        bool covered = false;
        trie.each_prefix(text.substr(at), [&](size_t length, int32_t id) {
            ++work.steps;
            best[at + length].offer(scores[static_cast<size_t>(id)] + here, id, length, false);
            covered = covered || length == character;
        });
        if (!covered) best[at + character].offer(unknown_score + here, 0, character, true);
        at += character;
    }
    std::vector<UnigramToken> tokens;
    for (size_t end = text.size(); end > 0; end -= best[end].length) {
        tokens.push_back({end - best[end].length, end, best[end].id, best[end].unknown});
    }
    std::reverse(tokens.begin(), tokens.end());
    return tokens;
}

template std::vector<UnigramToken> best_segmentation<float>(std::string_view, const PrefixTrie&,
                                                            const std::vector<float>&, float,
                                                            EncodeWork&);
template std::vector<UnigramToken> best_segmentation<double>(std::string_view, const PrefixTrie&,
                                                             const std::vector<double>&, double,
                                                             EncodeWork&);

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores,
                           std::optional<int32_t> unknown_id, bool byte_fallback)
    : TokenModel(std::move(vocabulary)),
      scores_(std::move(scores)),
      unknown_id_(unknown_id),
      byte_fallback_(byte_fallback) {
    double lowest = std::numeric_limits<double>::infinity();
    for (const double score : scores_) lowest = std::min(lowest, score);
    unknown_score_ = lowest - kUnknownPenalty;
    for (int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
        const std::string_view text = vocabulary_.text(id);
        if (text.empty()) continue;
        trie_.insert(text, *vocabulary_.id(text));
    }
}

void UnigramModel::add_unknown(std::string_view text, std::vector<int32_t>& ids) const {
    if (const auto id = vocabulary_.id(text)) {
        ids.push_back(*id);
        return;
    }
    if (byte_fallback_) {
        std::vector<int32_t> bytes;
        for (const char c : text) {
            if (const auto id = vocabulary_.id(byte_token(static_cast<uint8_t>(c)))) {
                bytes.push_back(*id);
            }
        }
        if (bytes.size() == text.size()) {
            ids.insert(ids.end(), bytes.begin(), bytes.end());
            return;
        }
    }
    if (!unknown_id_) {
        throw Error(ErrorKind::bad_data,
                    "the text holds characters outside the vocabulary, which has no unknown token");
    }
    ids.push_back(*unknown_id_);
}

void UnigramModel::tokenize(std::string_view piece, std::vector<int32_t>& ids,
                            EncodeWork& work) const {
    const auto tokens = best_segmentation<double>(piece, trie_, scores_, unknown_score_, work);
    // Neighbouring unknown characters become one unknown token; so does the unknown token's own
    // spelling.
    const auto is_unknown = [&](const UnigramToken& token) {
        return token.unknown || (unknown_id_ && token.id == *unknown_id_);
    };
    for (size_t i = 0; i < tokens.size();) {
        if (!is_unknown(tokens[i])) {
            ids.push_back(tokens[i].id);
            ++i;
            continue;
        }
        const size_t begin = tokens[i].begin;
        size_t end = begin;
        for (; i < tokens.size() && is_unknown(tokens[i]); ++i) end = tokens[i].end;
        add_unknown(piece.substr(begin, end - begin), ids);
    }
}

}  // namespace nvllm
