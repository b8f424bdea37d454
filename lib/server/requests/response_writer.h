// What an API makes of a generation: a whole body, or the events of a stream. One class an API.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/chat/output/output_parser.h"
#include "lib/request/request_output.h"
#include "lib/server/http/api_error.h"
#include "lib/server/http/http_transaction.h"
#include "lib/server/openai/generation_request.h"
#include "lib/server/openai/response_types.h"

namespace nvllm::server {

class HostedModel;

// A prompt as it was computed.
struct GeneratedPrompt {
    std::vector<int32_t> token_ids;
    std::vector<SampledLogprobs> logprobs;  // when asked for
};

// What is new of a choice since the last time; of a whole response all.
struct ChoiceNews {
    size_t index = 0;
    bool is_first = false;
    const GeneratedPrompt* prompt = nullptr;
    OutputDelta said = {};
    std::vector<int32_t> token_ids = {};  // when asked for
    std::vector<SampledLogprobs> logprobs = {};
    bool has_called = false;  // now or before
    // The last one: stop, or length for all that ended it early.
    std::optional<FinishReason> finish_reason = {};
    responses::StopReason stop_reason = {};
};

using StreamEvents = std::vector<StreamEvent>;

// Called under the lock of its generation: on the I/O thread, or a whole response on any.
class ResponseWriter {
  public:
    virtual ~ResponseWriter() = default;

    // Of the response: "chatcmpl-..."
    virtual const std::string& id() const = 0;

    virtual std::string whole(std::vector<ChoiceNews> choices, const Usage& usage) = 0;
    // After whole(), or after the end of a stream: the response was given to the client.
    virtual void delivered() {}

    // --- The events of a stream, appended ---

    // The request was begun; before everything else but a failure.
    virtual void begin(const Usage&, StreamEvents&) {}
    virtual void progress(const PromptProgress&, const Usage&, StreamEvents&) {}
    virtual void news(ChoiceNews news, const Usage& usage, StreamEvents& events) = 0;
    // After the last news of all choices.
    virtual void end(const Usage& usage, StreamEvents& events) = 0;
    // Nothing follows it.
    virtual void failure(const ApiError& error, StreamEvents& events) {
        events.push_back({.data = error_body(error)});
    }
};

// Makes the writer of a request, which outlives it, once that has been admitted.
using MakeWriter = std::function<std::unique_ptr<ResponseWriter>(
    const GenerationRequest& request, const HostedModel& model,
    const HttpTransaction& transaction)>;

}  // namespace nvllm::server
