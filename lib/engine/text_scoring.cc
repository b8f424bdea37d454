// Which method a model has, and the prompt of Qwen3-Reranker (Zhang et al. 2025).
#include "lib/engine/text_scoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// As the model's card has it. What is asked stands between the two.
constexpr std::string_view kPrefix =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
constexpr std::string_view kSuffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
constexpr const char* kInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";
// A query that begins so brings the prompt itself, as clients of other servers write it.
constexpr std::string_view kTurn = "<|im_start|>";

ScoreFunction function_of(LabelFunction function) {
    switch (function) {
        case LabelFunction::none:
            return ScoreFunction::none;
        case LabelFunction::sigmoid:
            return ScoreFunction::sigmoid;
        case LabelFunction::softmax:
            return ScoreFunction::softmax;
    }
    return ScoreFunction::none;
}

[[noreturn]] void refuse_tokens(const std::string& why) {
    throw Error(ErrorKind::usage, "--classifier-from-token: " + why);
}

int32_t token_named(const Tokenizer& tokenizer, const std::string& name) {
    const std::vector<int32_t> ids = tokenizer.encode(name, {.add_special_tokens = false});
    if (ids.size() == 1) return ids.front();
    const std::optional<int32_t> spelled = tokenizer.token_id(name);
    if (!spelled) {
        refuse_tokens(fmt::format("'{}' is not one token of this model's vocabulary", name));
    }
    return *spelled;
}

std::vector<int32_t> tokens_named(const Tokenizer* tokenizer, const std::string& names) {
    std::vector<int32_t> ids;
    if (names.empty()) return ids;
    if (tokenizer == nullptr) refuse_tokens("this model has no tokenizer");
    for (size_t begin = 0; begin <= names.size();) {
        const size_t end = std::min(names.find(',', begin), names.size());
        ids.push_back(token_named(*tokenizer, names.substr(begin, end - begin)));
        begin = end + 1;
    }
    if (ids.size() > 2) refuse_tokens("one or two tokens are expected, such as no,yes");
    return ids;
}

Fault fault(std::string message, std::string field = {}, std::string code = {}) {
    return Fault{ErrorKind::bad_data, std::move(message), std::move(field), std::move(code)};
}

void append(std::vector<int32_t>& to, const std::vector<int32_t>& ids) {
    to.insert(to.end(), ids.begin(), ids.end());
}

// A text of which some parts are a client's: special tokens are not recognised there.
struct MixedText {
    std::string text;
    std::vector<ByteRange> plain;

    void add_plain(const std::string& part) {
        plain.push_back({text.size(), text.size() + part.size()});
        text += part;
    }
};

}  // namespace

TextScoring::TextScoring(std::shared_ptr<const Tokenizer> tokenizer, const ModelConfig& config,
                         const PoolingConfig& pooling, const std::string& token_names)
    : tokenizer_(std::move(tokenizer)),
      architecture_(config.architecture),
      labels_(config.labels),
      label_function_(function_of(config.label_function)),
      token_ids_(tokens_named(tokenizer_.get(), token_names)),
      encoder_(config.encoder),
      classifies_mean_(config.classifies_mean),
      makes_embeddings_(config.encoder || !config.generates || pooling.row || pooling.normalize),
      pooling_fault_(pooling.fault),
      has_template_(config.model_type == "qwen3") {
    if (!token_ids_.empty() && !config.generates) {
        refuse_tokens(fmt::format("{} generates no text, so no token has a logit", architecture_));
    }
    for (const int32_t id : token_ids_) {
        if (id < config.vocab_size) continue;
        refuse_tokens(fmt::format("token {} is outside of the model's vocabulary", id));
    }
}

Result<ScoreMethod> TextScoring::method() const {
    if (!token_ids_.empty() || labels_.size() == 1) return ScoreMethod::cross_encoder;
    if (labels_.size() > 1) {
        return fault(fmt::format("{} has {} classes, and a score needs a head of one; /classify "
                                 "gives a score of each class",
                                 architecture_, labels_.size()),
                     "model", "unsupported_model");
    }
    if (pooling_fault_) return *pooling_fault_;
    if (makes_embeddings_) return ScoreMethod::bi_encoder;
    return fault(fmt::format("{} generates text (/v1/completions, /v1/chat/completions) and does "
                             "not compare texts: that needs a cross-encoder, an embedding model, "
                             "or --classifier-from-token for a model that answers with tokens",
                             architecture_),
                 "model", "unsupported_model");
}

PoolingParams TextScoring::cross_encoder_pooling() const {
    if (token_ids_.empty()) return class_pooling();
    PoolingParams params;
    params.values = PooledValues::tokens;
    params.token_ids = token_ids_;
    params.function = token_ids_.size() == 1 ? ScoreFunction::sigmoid : ScoreFunction::softmax;
    return params;
}

PoolingParams TextScoring::class_pooling() const {
    PoolingParams params;
    params.kind = encoder_ ? PoolingKind::cls : PoolingKind::last;
    if (classifies_mean_) params.kind = PoolingKind::mean;
    params.values = PooledValues::classes;
    params.function = label_function_;
    return params;
}

Result<EncodedPair> TextScoring::encode(const TextPair& pair,
                                        std::optional<int32_t> max_tokens) const {
    if (has_template_ && !pair.first.starts_with(kTurn)) {
        return encode_in_template(pair, max_tokens);
    }
    if (!pair.instruction.empty()) {
        return fault(
            fmt::format("'instruction' is for models whose prompt has one; that of {} "
                        "has none{}",
                        architecture_, has_template_ ? " besides what the query brings" : ""),
            "instruction");
    }
    if (has_template_ || !token_ids_.empty()) return encode_joined(pair, max_tokens);
    return tokenizer_->encode_pair(pair.first, pair.second, {max_tokens, pair.max_second_tokens});
}

Result<EncodedPair> TextScoring::encode_joined(const TextPair& pair,
                                               std::optional<int32_t> max_tokens) const {
    if (pair.max_second_tokens) {
        return fault("'max_tokens_per_doc' cannot be used with texts that bring their own prompt",
                     "max_tokens_per_doc");
    }
    EncodedPair encoded{tokenizer_->encode(pair.first + pair.second), 0};
    if (max_tokens && encoded.ids.size() > static_cast<size_t>(*max_tokens)) {
        return fault(fmt::format("the texts have {} tokens, more than {}, and cannot be cut since "
                                 "they bring their own prompt",
                                 encoded.ids.size(), *max_tokens),
                     "truncate_prompt_tokens", "context_length_exceeded");
    }
    return encoded;
}

EncodedPair TextScoring::encode_in_template(const TextPair& pair,
                                            std::optional<int32_t> max_tokens) const {
    MixedText question;
    question.text = "<Instruct>: ";
    question.add_plain(pair.instruction.empty() ? kInstruction : pair.instruction);
    question.text += "\n<Query>: ";
    question.add_plain(pair.first);
    question.text += "\n<Document>: ";
    question.add_plain(pair.max_second_tokens ? beginning(pair.second, *pair.max_second_tokens)
                                              : pair.second);
    const EncodeOptions whole{.add_special_tokens = false};
    EncodeOptions mixed = whole;
    mixed.plain_text = question.plain;
    EncodedPair encoded{tokenizer_->encode(kPrefix, whole), 0};
    std::vector<int32_t> asked = tokenizer_->encode(question.text, mixed);
    const std::vector<int32_t> suffix = tokenizer_->encode(kSuffix, whole);
    if (max_tokens) {
        const size_t around = encoded.ids.size() + suffix.size();
        const auto most = static_cast<size_t>(*max_tokens);
        if (most <= around) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{} tokens leave no space for two texts, around which the "
                                    "model's prompt has {}",
                                    most, around));
        }
        asked.resize(std::min(asked.size(), most - around));
    }
    append(encoded.ids, asked);
    append(encoded.ids, suffix);
    return encoded;
}

// A character that was cut is left out.
std::string TextScoring::beginning(const std::string& text, int32_t max_tokens) const {
    std::vector<int32_t> ids = tokenizer_->encode(text, {.add_special_tokens = false});
    if (ids.size() <= static_cast<size_t>(max_tokens)) return text;
    ids.resize(static_cast<size_t>(max_tokens));
    std::string kept = tokenizer_->decode(ids, false);
    while (kept.ends_with(kReplacement)) kept.resize(kept.size() - kReplacement.size());
    return kept;
}

}  // namespace nvllm
