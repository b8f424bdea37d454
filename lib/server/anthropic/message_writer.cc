// News as blocks.
#include "lib/server/anthropic/message_writer.h"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/json.h"
#include "lib/server/models/hosted_model.h"
#include "lib/server/openai/response_fields.h"
#include "lib/server/requests/choice_output.h"

namespace nvllm::server::anthropic {
namespace {

MessageUsage usage_of(const Usage& usage) {
    return {.input_tokens = usage.prompt_tokens - usage.cached_tokens,
            .cache_read_input_tokens = usage.cached_tokens,
            .output_tokens = usage.completion_tokens};
}

Stop stop_of(const ChoiceNews& news) {
    Stop stop;
    if (!news.finish_reason) return stop;
    if (news.stop_reason && std::holds_alternative<std::string>(*news.stop_reason)) {
        stop.sequence = std::get<std::string>(*news.stop_reason);
    }
    if (news.finish_reason != FinishReason::stop) {
        stop.reason = "max_tokens";
    } else if (stop.sequence) {
        stop.reason = "stop_sequence";
    } else {
        stop.reason = news.has_called ? "tool_use" : "end_turn";
    }
    return stop;
}

// The input of a call. One that was cut in its arguments is no JSON: it is given as the API's
// documentation gives such a one back to a model.
std::string input_of(const std::string& arguments) {
    if (arguments.empty()) return "{}";
    if (nlohmann::json::accept(arguments)) return arguments;
    return fmt::format("{{\"INVALID_JSON\":{}}}", json_quoted(arguments));
}

// Other servers of this API sign thoughts to know them again; here it only tells them apart.
std::string signature_of(std::string_view thought) { return tool_call_id(thought); }

template <typename Event>
void add(const Event& event, StreamEvents& events) {
    events.push_back({.data = json_of(event), .name = std::string(event.type.text())});
}

}  // namespace

MessageWriter::MessageWriter(const GenerationRequest& request, std::string id, std::string model)
    : request_(request), id_(std::move(id)), model_(std::move(model)) {}

std::unique_ptr<ResponseWriter> MessageWriter::make(const GenerationRequest& request,
                                                    const HostedModel& model,
                                                    const HttpTransaction& transaction) {
    return std::make_unique<MessageWriter>(request, "msg_" + transaction.request_id,
                                           request.model.empty() ? model.name() : request.model);
}

Message MessageWriter::message(const Usage& usage) const {
    Message message;
    message.id = id_;
    message.model = model_;
    message.usage = usage_of(usage);
    return message;
}

std::string MessageWriter::whole(std::vector<ChoiceNews> choices, const Usage& usage) {
    const ChoiceNews& news = choices.front();
    Message message = this->message(usage);
    const std::string signature = signature_of(news.said.reasoning);
    std::deque<std::string> inputs;  // what the message refers to
    if (request_.include_reasoning && !news.said.reasoning.empty()) {
        message.content.emplace_back(ThinkingBlock{{}, news.said.reasoning, signature});
    }
    if (!news.said.content.empty()) message.content.emplace_back(TextBlock{{}, news.said.content});
    for (const ToolCallDelta& call : news.said.tool_calls) {
        inputs.push_back(input_of(call.arguments));
        message.content.emplace_back(ToolUseBlock{{}, call.id, call.name, {inputs.back()}});
    }
    message.stop = stop_of(news);
    return json_of(message);
}

void MessageWriter::begin(const Usage& usage, StreamEvents& events) {
    add(MessageStart{{}, message(usage)}, events);
    add(Ping{}, events);
}

void MessageWriter::news(ChoiceNews news, const Usage&, StreamEvents& events) {
    for (const ToolCallDelta& one : news.said.begun_calls()) call(one, events);
    if (request_.include_reasoning && !news.said.reasoning.empty()) {
        think(news.said.reasoning, events);
    }
    if (!news.said.content.empty()) {
        open(BlockKind::text, TextBlock{}, events);
        add(BlockDelta{{}, num_blocks_ - 1, TextDelta{{}, news.said.content}}, events);
    }
    for (const ToolCallDelta& one : news.said.new_calls()) call(one, events);
    if (news.finish_reason) stop_ = stop_of(news);
}

void MessageWriter::end(const Usage& usage, StreamEvents& events) {
    close(events);
    add(MessageDelta{{}, stop_, usage_of(usage)}, events);
    add(MessageStop{}, events);
}

void MessageWriter::failure(const ApiError& error, StreamEvents& events) {
    events.push_back({.data = error_body(error, ErrorForm::anthropic, ""), .name = "error"});
}

void MessageWriter::think(std::string_view text, StreamEvents& events) {
    open(BlockKind::thinking, ThinkingBlock{}, events);
    thought_ += text;
    add(BlockDelta{{}, num_blocks_ - 1, ThinkingDelta{{}, text}}, events);
}

void MessageWriter::call(const ToolCallDelta& call, StreamEvents& events) {
    if (!call.name.empty()) {
        close(events);
        open(BlockKind::tool, ToolUseBlock{{}, call.id, call.name, {"{}"}}, events);
    }
    if (call.arguments.empty()) return;
    add(BlockDelta{{}, num_blocks_ - 1, InputDelta{{}, call.arguments}}, events);
}

void MessageWriter::open(BlockKind kind, Block block, StreamEvents& events) {
    if (open_ == kind) return;
    close(events);
    open_ = kind;
    add(BlockStart{{}, num_blocks_++, std::move(block)}, events);
}

void MessageWriter::close(StreamEvents& events) {
    const BlockKind closed = std::exchange(open_, BlockKind::none);
    if (closed == BlockKind::none) return;
    if (closed == BlockKind::thinking) {
        const std::string signature = signature_of(std::exchange(thought_, {}));
        add(BlockDelta{{}, num_blocks_ - 1, SignatureDelta{{}, signature}}, events);
    }
    add(BlockStop{{}, num_blocks_ - 1}, events);
}

}  // namespace nvllm::server::anthropic
