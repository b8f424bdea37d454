// From the input of a caller (text, ids or messages, and sampling parameters) to a checked Request.
//
// Runs on the caller's thread: templates and tokenizers never hold up the engine. Immutable,
// thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/chat/conversation_renderer.h"
#include "lib/checkpoint/model_config.h"
#include "lib/checkpoint/pooling_config.h"
#include "lib/engine/answer_grammar.h"
#include "lib/engine/text_scoring.h"
#include "lib/grammar/grammar_spec.h"
#include "lib/request/request.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {

// Messages, checked, and variables of the chat template; lib/chat/chat_message.h.
using ChatPrompt = std::shared_ptr<const Conversation>;

struct RequestInput {
    // Text is completed as it stands (with the tokenizer's own beginning-of-text token); ids are
    // taken as they are. Two texts are for a cross-encoder, with pooling.
    std::variant<std::string, std::vector<int32_t>, ChatPrompt, TextPair> prompt;
    SamplingParams sampling;
    // A vector of the prompt is wanted and no text: of what says how to go on nothing counts. See
    // InputProcessor::default_pooling().
    std::optional<PoolingParams> pooling;
    // Of a text whose hidden states are pooled: which of the model's prompts it begins with, in
    // place of the default one. Empty text: none.
    std::optional<std::string> prompt_name;
    std::vector<std::string>
        bad_words;  // texts that are never written; added to sampling.bad_words as tokens
    std::string cache_salt;
    std::string adapter;  // by its name in AdapterRegistry; empty: the model alone
    int32_t priority = 0;
    bool speculative = true;  // drafts may be proposed, where the engine does
    // Only so many tokens of the prompt, its last ones; what the tokenizer puts around a text
    // stays. -1: as many as leave space for the output.
    std::optional<int32_t> truncate_prompt_tokens;
    bool allow_special_in_messages = false;
    // What the answer is held to.
    std::optional<GrammarSpec> grammar;
    // In place of `grammar` where that depends on how the prompt ends (end_of_prompt()).
    std::function<std::optional<GrammarSpec>(std::string_view prompt_end)> grammar_for_prompt;
    // Texts of special tokens that stay in the output although special tokens are skipped. Those
    // that the vocabulary does not have count for nothing.
    std::vector<std::string> kept_special_tokens;
};

// How a prompt ends, special tokens written out: as much of it as shows where the model begins.
std::string end_of_prompt(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

// What the answer to this prompt is held to. `tokenizer` may be null.
std::optional<GrammarSpec> grammar_of(const RequestInput& input, const Tokenizer* tokenizer,
                                      std::span<const int32_t> prompt);

class InputProcessor {
  public:
    // `tokenizer` is null for directories that have none: then only ids are taken. `chat_template`
    // overrides the tokenizer's own when not empty. Throws bad_data when the template cannot be
    // parsed and was given explicitly; a broken template of the checkpoint itself is a fault of the
    // first chat that needs it. `score_tokens`: as TextScoring's token_names, and what it throws.
    InputProcessor(std::shared_ptr<const Tokenizer> tokenizer, const ModelConfig& config,
                   const GenerationConfig& generation, const PoolingConfig& pooling,
                   int32_t max_model_len, const std::string& chat_template = "",
                   const std::string& score_tokens = "");

    // A request without id, arrival time or drawn seed. A grammar that was not compiled before may
    // take GrammarLimits::seconds. Faults: bad_data, naming the field and the limit.
    Result<Request> process(const RequestInput& input) const;

    // Sampling as generation_config.json has it, over the library's defaults. `do_sample: false`
    // means greedy, as in transformers.
    SamplingParams default_sampling() const;

    // How the model's authors make a vector of a text. Where they do not say: of decoders the last
    // position's, of encoders the first one's, of length 1 (as vLLM does). A fault when they do it
    // in a way that is not supported.
    Result<PoolingParams> default_pooling() const;

    // A fault of `field` for the first id that the model does not have.
    std::optional<Fault> check_known(const std::vector<int32_t>& ids,
                                     const std::string& field) const;

    // How the model compares texts.
    const TextScoring& scoring() const { return scoring_; }

    const ConversationRenderer& conversations() const { return conversations_; }

  private:
    Result<std::vector<int32_t>> prompt_ids(const RequestInput& input) const;
    Result<std::vector<int32_t>> chat_ids(const RequestInput& input) const;
    // Lengths of prompt and answer together become lengths of the answer.
    std::optional<Fault> bound_length(int32_t num_prompt_tokens, SamplingParams& sampling) const;
    // What generation_config.json says of single tokens and sequences of them.
    void add_default_tokens(SamplingParams& sampling) const;
    std::vector<int32_t> known_special(const std::vector<std::string>& texts) const;
    void add_bad_words(const std::vector<std::string>& words, SamplingParams& sampling) const;
    // As input.truncate_prompt_tokens says; `num_answer` tokens have to fit after them.
    void truncate(const RequestInput& input, int32_t num_answer, std::vector<int32_t>& ids) const;
    // A fault for a text whose beginning alone is beyond the context, if it is not to be truncated.
    std::optional<Fault> check_beginning(const RequestInput& input, const std::string& text) const;
    // `num_answer`: tokens that have to fit after them.
    std::optional<Fault> check_ids(const std::vector<int32_t>& ids, int32_t num_answer) const;
    Result<Request> process_pooling(const RequestInput& input) const;
    // What the answer is held to; null without a grammar.
    Result<std::shared_ptr<const AnswerConstraintSource>> constraint(
        const RequestInput& input, std::span<const int32_t> prompt) const;
    // The input with a prompt of the model before its text; empty: it stays as it is.
    Result<std::optional<RequestInput>> with_prompt(const RequestInput& input) const;
    Result<EncodedPair> pair_ids(const RequestInput& input, const TextPair& pair) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    GenerationConfig generation_;
    std::vector<int32_t> eos_token_ids_;
    PoolingConfig pooling_;
    std::string architecture_;
    bool encoder_;
    bool has_states_;
    bool generates_;
    int32_t vocab_size_;
    int64_t vector_size_;
    int32_t max_model_len_;
    TextScoring scoring_;
    ConversationRenderer conversations_;
    std::unique_ptr<AnswerGrammars> grammars_;
};

}  // namespace nvllm
