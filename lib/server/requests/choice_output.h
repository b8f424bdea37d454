// What the text of one choice means, piece after piece: reasoning, content, calls with their ids,
// and how many of its tokens were reasoning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/chat/output/output_parser.h"

namespace nvllm::server {

// Not thread-safe.
class ChoiceOutput {
  public:
    // Without a parser all text is content. `request_id` and `choice` make the ids of calls.
    ChoiceOutput(std::optional<OutputParser> parser, std::string_view request_id, size_t choice);

    // The next text, which `num_tokens` made. Without any, they belong to what came before.
    void push(std::string_view text, int64_t num_tokens);
    // The text has ended. Nothing may be pushed afterwards.
    void finish();

    // What is new since the last time. Calls without an id of the model's have one.
    OutputDelta take() { return std::exchange(said_, {}); }
    bool has_news() const { return !said_.empty(); }

    // Whether there are calls, the last of which has all its arguments: the end of the text may
    // have cut it.
    bool has_called() const { return has_called_ && !parser_->in_call(); }
    int64_t reasoning_tokens() const { return reasoning_tokens_; }

  private:
    void add(OutputDelta next);

    std::optional<OutputParser> parser_;
    std::string seed_;  // of ids
    OutputDelta said_;
    bool has_called_ = false;
    int64_t reasoning_tokens_ = 0;
};

// Nine letters and digits, as Mistral's templates demand them. The same `seed`, the same id.
std::string tool_call_id(std::string_view seed);

}  // namespace nvllm::server
