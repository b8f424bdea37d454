// News as pieces of the OpenAI API's shapes.
#include "lib/server/requests/completion_writer.h"

#include <ctime>
#include <utility>

#include "lib/server/models/hosted_model.h"

namespace nvllm::server {

CompletionWriter::CompletionWriter(const GenerationRequest& request,
                                   std::shared_ptr<const Tokenizer> tokenizer,
                                   ResponseEnvelope head)
    : request_(request), tokenizer_(std::move(tokenizer)), head_(std::move(head)) {
    for (size_t i = 0; i < request_.num_choices(); ++i) {
        logprob_writers_.emplace_back(tokenizer_, request_.is_chat, request_.shows_ids);
    }
}

std::unique_ptr<ResponseWriter> CompletionWriter::make(const GenerationRequest& request,
                                                       const HostedModel& model,
                                                       const HttpTransaction& transaction) {
    ResponseEnvelope head{.is_chat = request.is_chat,
                          .id = (request.is_chat ? "chatcmpl-" : "cmpl-") + transaction.request_id,
                          .created = std::time(nullptr),
                          .model = request.model.empty() ? model.name() : request.model};
    return std::make_unique<CompletionWriter>(request, model.engine()->tokenizer(),
                                              std::move(head));
}

std::string CompletionWriter::whole(std::vector<ChoiceNews> choices, const Usage& usage) {
    std::vector<ChoicePiece> pieces;
    for (ChoiceNews& news : choices) pieces.push_back(piece_of(std::move(news)));
    return whole_response(head_, pieces, usage);
}

void CompletionWriter::progress(const PromptProgress& progress, const Usage& usage,
                                StreamEvents& events) {
    if (!request_.return_progress) return;
    events.push_back({.data = progress_chunk(head_, progress, chunk_usage(), usage)});
}

void CompletionWriter::news(ChoiceNews news, const Usage& usage, StreamEvents& events) {
    if (request_.is_chat && news.is_first) {
        events.push_back({.data = role_chunk(head_, news.index, chunk_usage(), usage)});
    }
    events.push_back({.data = chunk_of(head_, piece_of(std::move(news)), chunk_usage(), usage)});
}

void CompletionWriter::end(const Usage& usage, StreamEvents& events) {
    if (request_.include_usage) events.push_back({.data = usage_chunk(head_, usage)});
    events.push_back({.data = "[DONE]"});
}

ChunkUsage CompletionWriter::chunk_usage() const {
    if (request_.continuous_usage_stats) return ChunkUsage::given;
    return request_.include_usage ? ChunkUsage::null : ChunkUsage::absent;
}

ChoicePiece CompletionWriter::piece_of(ChoiceNews news) {
    ChoicePiece piece;
    piece.index = news.index;
    piece.text = echo_of(news) + news.said.content;
    if (request_.include_reasoning) piece.reasoning = std::move(news.said.reasoning);
    piece.tool_calls = std::move(news.said.tool_calls);
    piece.has_called = news.has_called;
    piece.finish_reason = news.finish_reason;
    piece.stop_reason = news.stop_reason;
    if (request_.return_token_ids) piece.token_ids = std::move(news.token_ids);
    if (request_.inputs.front().sampling.logprobs) piece.logprobs = logprobs_of(news, piece);
    const bool is_wanted = request_.prompt_logprobs && !(request_.is_chat && news.index > 0);
    if (news.is_first && is_wanted) {
        piece.prompt_logprobs = prompt_logprobs_json(news.prompt->logprobs, tokenizer_.get());
    }
    return piece;
}

std::string CompletionWriter::logprobs_of(const ChoiceNews& news, const ChoicePiece& piece) {
    const std::string echo = echo_of(news);
    LogprobPiece logprobs{.start = {},
                          .prompt = {},
                          .output = news.logprobs,
                          .text = piece.text,
                          .is_last = piece.finish_reason.has_value()};
    if (news.is_first) {
        logprobs.start = ChoiceStart{news.prompt->token_ids, std::nullopt,
                                     request_.inputs.front().sampling.skip_special_tokens};
        if (request_.echo) logprobs.start->echo = echo;
        if (request_.echo) logprobs.prompt = news.prompt->logprobs;
    }
    return logprob_writers_[news.index].json(logprobs);
}

std::string CompletionWriter::echo_of(const ChoiceNews& news) const {
    if (!request_.echo || !news.is_first) return {};
    const std::string& given = request_.prompt_texts[prompt_of(news.index)];
    if (!given.empty()) return given;
    return tokenizer_ == nullptr ? std::string() : tokenizer_->decode(news.prompt->token_ids, true);
}

}  // namespace nvllm::server
