// An active request that generates: from prepared requests to the client's response, which the
// writer of its API makes.
//
// Outputs arrive on the engine thread and are gathered; the I/O thread takes what has gathered
// whenever the client can take it, so a slow client gets fewer and larger chunks. Of a stream no
// more gathers than kMaxUnsentBytes and what one step adds: then the engine computes nothing more
// of it until the client has taken what there is. One that takes nothing is given up by its
// connection.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/task_pool.h"
#include "lib/engine/engine.h"
#include "lib/server/access/admission_control.h"
#include "lib/server/access/api_keys.h"
#include "lib/server/http/api_error.h"
#include "lib/server/http/http_transaction.h"
#include "lib/server/models/hosted_model.h"
#include "lib/server/openai/generation_request.h"
#include "lib/server/operations/request_metrics.h"
#include "lib/server/requests/active_request.h"
#include "lib/server/requests/admission_permit.h"
#include "lib/server/requests/choice_output.h"
#include "lib/server/requests/response_writer.h"

namespace nvllm::server {

class ActiveGeneration final : public EventSource,
                               public ActiveRequest,
                               public std::enable_shared_from_this<ActiveGeneration> {
  public:
    // What of a stream waits for its client, about as long as it will be as JSON; as much again may
    // be on its way into the socket.
    static constexpr size_t kMaxUnsentBytes = 64 * 1024;

    // `on_end` runs once, when the engine has ended every part of the request.
    ActiveGeneration(GenerationRequest request, const MakeWriter& make_writer,
                     std::shared_ptr<HostedModel> model,
                     std::shared_ptr<HttpTransaction> transaction, AdmissionPermit permit,
                     TaskPool& pool, RequestEndListener on_end);

    // Submits one request for each prompt and begins to respond.
    void start(std::vector<Request> prepared);

    StreamState take(StreamEvents& events) override;
    StreamEvent cut_off(const std::string& error) override;

    void check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) override;

    const GenerationRequest& request() const { return request_; }
    Usage usage() const override;
    RequestStats stats() const override;

  private:
    // The text of so many tokens.
    struct TextPiece {
        size_t num_bytes = 0;
        int64_t num_tokens = 0;
    };
    // Of one choice, since the last chunk (or the start).
    struct PendingChoice {
        std::string text;               // not read yet
        std::vector<TextPiece> pieces;  // of it, one an output, where reasoning is told apart
        std::vector<int32_t> token_ids;
        std::vector<SampledLogprobs> logprobs;
        std::optional<FinishReason> finish_reason;
        responses::StopReason stop_reason;
        bool has_any = false;
        bool has_begun = false;  // something was sent of it
        bool is_finished = false;
        bool is_read = false;  // its text, to the end
    };
    struct Prompt {
        RequestId request = 0;
        std::shared_ptr<RequestMetrics> metrics;
        GeneratedPrompt computed;
        int64_t num_cached_tokens = 0;
        int64_t num_without_state = 0;
        int64_t num_computed_tokens = 0;
        bool is_scheduled = false;
        bool is_finished = false;
    };

    void gather(size_t prompt, RequestOutput&& output);
    // Everything is computed: releases the permits before the client sees the end.
    void release();
    void gather_choice(size_t prompt, ContinuationOutput&& part);
    responses::StopReason stop_reason_of(const ContinuationOutput& part) const;
    void cancel_all(AbortCause cause);
    // The engine waits for the client, or does not.
    void set_paused(bool is_paused);
    // Fails the request as a whole: responds with the error and cancels the rest.
    void fail(ApiError error, AbortCause cause);
    void disconnected(DisconnectReason why);
    void respond_whole();
    std::string whole_body();
    ChoiceOutput output_of(size_t choice, const Request& prepared) const;
    // Gives a choice's text to its output.
    void read_text(size_t index);
    // What has gathered of a choice, which is then forgotten.
    ChoiceNews news_of(size_t index);
    void begin_events(StreamEvents& events);
    void progress_event(StreamEvents& events);
    Usage usage_locked() const;
    size_t prompt_of(size_t choice) const { return choice / static_cast<size_t>(request_.n()); }

    const GenerationRequest request_;
    const std::shared_ptr<HostedModel> model_;
    const std::shared_ptr<HttpTransaction> transaction_;
    TaskPool& pool_;
    const RequestEndListener on_end_;
    const std::unique_ptr<ResponseWriter> writer_;
    const Clock::time_point begun_ = Clock::now();

    mutable std::mutex mutex_;
    AdmissionPermit permit_;
    std::vector<Prompt> prompts_;
    std::vector<PendingChoice> choices_;
    std::vector<int32_t> end_token_ids_;      // of the model
    std::vector<ChoiceOutput> outputs_;       // one a choice
    std::vector<int64_t> completion_tokens_;  // one a choice
    size_t num_open_prompts_ = 0;
    size_t unsent_bytes_ = 0;  // of a stream
    bool is_paused_ = false;
    bool has_begun_ = false;  // the stream's first events were given
    std::optional<ApiError> error_;
    RequestEnd end_ = RequestEnd::finished;
    std::optional<Clock::time_point> scheduled_at_;
    PromptProgress sent_progress_;
};

}  // namespace nvllm::server
