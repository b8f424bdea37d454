// The Unigram model: the segmentation of highest probability (Kudo, 2018), by Viterbi's algorithm.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lib/tokenizer/prefix_trie.h"
#include "lib/tokenizer/token_model.h"

namespace nvllm {

// One token of the best segmentation; `unknown` where no token of the vocabulary fits a character.
struct UnigramToken {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = 0;
    bool unknown = false;
};

// The lattice search, shared by both file formats; they differ in the precision of sums.
// `scores` by id; unknown characters score `unknown_score`. Real is float or double.
template <typename Real>
std::vector<UnigramToken> best_segmentation(std::string_view text, const PrefixTrie& trie,
                                            const std::vector<Real>& scores, Real unknown_score,
                                            EncodeWork& work);

// As tokenizer.json has it.
class UnigramModel : public TokenModel {
  public:
    UnigramModel(Vocabulary vocabulary, std::vector<double> scores,
                 std::optional<int32_t> unknown_id, bool byte_fallback);
    void tokenize(std::string_view piece, std::vector<int32_t>& ids,
                  EncodeWork& work) const override;

  private:
    void add_unknown(std::string_view text, std::vector<int32_t>& ids) const;

    std::vector<double> scores_;
    double unknown_score_ = 0;
    std::optional<int32_t> unknown_id_;
    bool byte_fallback_;
    PrefixTrie trie_;
};

}  // namespace nvllm
