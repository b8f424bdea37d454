// From what a caller gives (text, ids or messages, and how to go on) to a checked Request.
//
// Runs on the caller's thread: templates and tokenizers never hold up the engine. Immutable,
// thread-safe.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/request/request.h"
#include "lib/text/chat/conversation_renderer.h"
#include "lib/text/tokenizer.h"

namespace nvllm {

// Variables of the chat template: "messages" and, when wanted, "tools", "add_generation_prompt" and
// others.
using ChatVariables = std::shared_ptr<const nlohmann::ordered_json>;

struct RequestInput {
    // Text is completed as it stands (with the tokenizer's own beginning-of-text token); ids are
    // taken as they are.
    std::variant<std::string, std::vector<int32_t>, ChatVariables> prompt;
    SamplingParams sampling;
    std::vector<std::string>
        bad_words;  // texts that are never written; added to sampling.bad_words as tokens
    std::string cache_salt;
    int32_t priority = 0;
    bool allow_special_in_messages = false;
};

class InputProcessor {
  public:
    // `tokenizer` is null for directories that have none: then only ids are taken. `chat_template`
    // overrides the tokenizer's own when not empty. Throws bad_data when the template cannot be
    // parsed and was given explicitly; a broken template of the checkpoint itself is a fault of the
    // first chat that needs it.
    InputProcessor(std::shared_ptr<const Tokenizer> tokenizer, const ModelConfig& config,
                   const GenerationConfig& generation, int32_t max_model_len,
                   const std::string& chat_template = "");

    // A request without id, arrival time or drawn seed. Faults: bad_data, naming the field and the
    // limit.
    Result<Request> process(const RequestInput& input) const;

    // Sampling as generation_config.json has it, over the library's defaults. `do_sample: false`
    // means greedy, as in transformers.
    SamplingParams default_sampling() const;

    const ConversationRenderer& conversations() const { return conversations_; }

  private:
    Result<std::vector<int32_t>> prompt_ids(const RequestInput& input) const;
    Result<std::vector<int32_t>> chat_ids(const RequestInput& input) const;
    void add_bad_words(const std::vector<std::string>& words, SamplingParams& sampling) const;
    std::optional<Fault> check_ids(const std::vector<int32_t>& ids) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    GenerationConfig generation_;
    std::vector<int32_t> eos_token_ids_;
    int32_t vocab_size_;
    int32_t max_model_len_;
    ConversationRenderer conversations_;
};

}  // namespace nvllm
