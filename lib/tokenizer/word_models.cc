// WordPiece by a trie, so that a word costs no more than its length times the longest token.
#include "lib/tokenizer/word_models.h"

#include "kernels/error.h"
#include "lib/base/utf8.h"

namespace nvllm {
namespace {

int32_t known(std::optional<int32_t> id, const std::string& token) {
    if (id) return *id;
    throw Error(ErrorKind::bad_data,
                "the unknown token \"" + token + "\" is needed but is not in the vocabulary");
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, Options options)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)) {
    unknown_id_ = vocabulary_.id(options_.unknown_token);
    for (int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
        const std::string_view text = vocabulary_.text(id);
        if (text.empty()) continue;
        first_.insert(text, id);
        if (text.size() > options_.continuing_prefix.size() &&
            text.starts_with(options_.continuing_prefix)) {
            continuing_.insert(text.substr(options_.continuing_prefix.size()), id);
        }
    }
}

std::optional<PrefixTrie::Match> WordPieceModel::longest_at(std::string_view piece,
                                                            size_t at) const {
    return (at == 0 ? first_ : continuing_).longest(piece.substr(at));
}

void WordPieceModel::tokenize(std::string_view piece, std::vector<int32_t>& ids,
                              EncodeWork& work) const {
    const size_t before = ids.size();
    bool bad = utf8::count(piece) > options_.longest_word;
    for (size_t at = 0; at < piece.size() && !bad;) {
        ++work.steps;
        const auto match = longest_at(piece, at);
        bad = !match;
        if (bad) break;
        ids.push_back(match->value);
        at += match->length;
    }
    if (!bad) return;
    ids.resize(before);
    ids.push_back(known(unknown_id_, options_.unknown_token));
}

WordLevelModel::WordLevelModel(Vocabulary vocabulary, std::string unknown_token)
    : TokenModel(std::move(vocabulary)), unknown_token_(std::move(unknown_token)) {
    unknown_id_ = vocabulary_.id(unknown_token_);
}

void WordLevelModel::tokenize(std::string_view piece, std::vector<int32_t>& ids,
                              EncodeWork& work) const {
    ++work.steps;
    const auto id = vocabulary_.id(piece);
    ids.push_back(id ? *id : known(unknown_id_, unknown_token_));
}

}  // namespace nvllm
