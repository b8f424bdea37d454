// Models without merges: WordPiece, Unigram and WordLevel of tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/tokenizer/prefix_trie.h"
#include "lib/tokenizer/token_model.h"

namespace nvllm {

// Greedy longest match within a word (BERT).
class WordPieceModel : public TokenModel {
  public:
    struct Options {
        std::string unknown_token = "[UNK]";
        std::string continuing_prefix = "##";
        size_t longest_word = 100;  // characters
    };
    WordPieceModel(Vocabulary vocabulary, Options options);
    void tokenize(std::string_view piece, std::vector<int32_t>& ids,
                  EncodeWork& work) const override;

  private:
    std::optional<PrefixTrie::Match> longest_at(std::string_view piece, size_t at) const;

    Options options_;
    std::optional<int32_t> unknown_id_;
    PrefixTrie first_;       // tokens as they are
    PrefixTrie continuing_;  // tokens without the prefix
};

// Whole pieces only.
class WordLevelModel : public TokenModel {
  public:
    WordLevelModel(Vocabulary vocabulary, std::string unknown_token);
    void tokenize(std::string_view piece, std::vector<int32_t>& ids,
                  EncodeWork& work) const override;

  private:
    std::string unknown_token_;
    std::optional<int32_t> unknown_id_;
};

}  // namespace nvllm
