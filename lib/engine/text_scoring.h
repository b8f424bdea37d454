// How a model compares two texts, and the tokens that it reads for that.
//
// Immutable, thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/model_config.h"
#include "lib/checkpoint/pooling_config.h"
#include "lib/request/pooling_params.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

struct TextPair {
    std::string first;   // the query
    std::string second;  // the document
    std::string instruction =
        {};  // what counts as relevant, where the prompt says it; empty: the usual
    std::optional<int32_t> max_second_tokens =
        {};  // so many of the document's first ones; empty: all
};

enum class ScoreMethod : uint8_t {
    cross_encoder,  // both texts are read at once; the last value of its vector is the score
    bi_encoder,     // each text is read alone; the score is the cosine of their vectors
};

class TextScoring {
  public:
    // `token_names`: the tokens, parted by a comma, whose logits make the score of a text model,
    // the one of a relevant document last; empty: none. `tokenizer` may be null. Throws
    // Error{usage} for names that are no tokens.
    TextScoring(std::shared_ptr<const Tokenizer> tokenizer, const ModelConfig& config,
                const PoolingConfig& pooling, const std::string& token_names);

    // A fault that says what the model is for, if it cannot compare texts.
    Result<ScoreMethod> method() const;
    // Of a cross-encoder's requests.
    PoolingParams cross_encoder_pooling() const;

    // The names of the classes; empty for a model without a head of classes.
    const std::vector<std::string>& labels() const { return labels_; }
    // Of requests for a score of each class. REQUIRES: there are some.
    PoolingParams class_pooling() const;

    // The tokens of a cross-encoder's prompt, `max_tokens` at most. Throws Error{bad_data} for a
    // text that cannot be spelled and for a limit that leaves nothing; a fault for fields that this
    // model has no use for. REQUIRES: there is a tokenizer.
    Result<EncodedPair> encode(const TextPair& pair, std::optional<int32_t> max_tokens) const;

  private:
    // Of a model whose prompt is known.
    EncodedPair encode_in_template(const TextPair& pair, std::optional<int32_t> max_tokens) const;
    // As a text that is complete already.
    Result<EncodedPair> encode_joined(const TextPair& pair,
                                      std::optional<int32_t> max_tokens) const;
    // The text's first tokens.
    std::string beginning(const std::string& text, int32_t max_tokens) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::string architecture_;
    std::vector<std::string> labels_;
    ScoreFunction label_function_;
    std::vector<int32_t> token_ids_;  // whose logits are scores
    bool encoder_;
    bool classifies_mean_;
    bool makes_embeddings_;  // and its authors say so
    std::optional<Fault> pooling_fault_;
    bool has_template_;
};

}  // namespace nvllm
