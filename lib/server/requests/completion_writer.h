// Responses to /v1/completions and /v1/chat/completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/server/openai/response_json.h"
#include "lib/server/requests/response_writer.h"

namespace nvllm::server {

class CompletionWriter final : public ResponseWriter {
  public:
    // `tokenizer` may be null.
    CompletionWriter(const GenerationRequest& request, std::shared_ptr<const Tokenizer> tokenizer,
                     ResponseEnvelope head);
    static std::unique_ptr<ResponseWriter> make(const GenerationRequest& request,
                                                const HostedModel& model,
                                                const HttpTransaction& transaction);

    const std::string& id() const override { return head_.id; }
    std::string whole(std::vector<ChoiceNews> choices, const Usage& usage) override;
    void progress(const PromptProgress& progress, const Usage& usage,
                  StreamEvents& events) override;
    void news(ChoiceNews news, const Usage& usage, StreamEvents& events) override;
    void end(const Usage& usage, StreamEvents& events) override;

  private:
    ChoicePiece piece_of(ChoiceNews news);
    std::string logprobs_of(const ChoiceNews& news, const ChoicePiece& piece);
    // The prompt's text, of the first piece when it is returned.
    std::string echo_of(const ChoiceNews& news) const;
    size_t prompt_of(size_t choice) const { return choice / static_cast<size_t>(request_.n()); }
    ChunkUsage chunk_usage() const;

    const GenerationRequest& request_;
    const std::shared_ptr<const Tokenizer> tokenizer_;
    const ResponseEnvelope head_;
    std::vector<LogprobWriter> logprob_writers_;  // one a choice
};

}  // namespace nvllm::server
