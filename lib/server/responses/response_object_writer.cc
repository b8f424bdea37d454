// News as items.
#include "lib/server/responses/response_object_writer.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/json.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {

using responses::OutputItem;
using responses::OutputPart;
using responses::ResponseEvent;

namespace {

constexpr const char* kDone = "completed";
constexpr const char* kBegun = "in_progress";

}  // namespace

ResponseObjectWriter::ResponseObjectWriter(const GenerationRequest& request,
                                           ResponseSettings settings, Head head,
                                           ResponseStore& store)
    : request_(request),
      settings_(std::move(settings)),
      head_(std::move(head)),
      id_("resp_" + head_.id),
      created_(std::time(nullptr)),
      store_(store) {}

// --- The response as a whole ---

ResponseObjectWriter::Item& ResponseObjectWriter::add_item(Kind kind) {
    constexpr const char* kPrefixes[] = {"rs", "msg", "fc"};
    items_.push_back({.kind = kind,
                      .id = fmt::format("{}_{}_{}", kPrefixes[static_cast<size_t>(kind)], head_.id,
                                        items_.size())});
    return items_.back();
}

OutputItem ResponseObjectWriter::shown(const Item& item) const {
    const char* status = item.is_done ? kDone : kBegun;
    if (item.is_done && finish_reason_ == FinishReason::length && &item == &items_.back()) {
        status = "incomplete";
    }
    if (item.kind == Kind::call) {
        return responses::FunctionCallItem{
            item.id,      {},        status,
            item.call_id, item.name, item.is_done ? item.text : std::string_view()};
    }
    if (item.kind == Kind::message) {
        responses::MessageItem message{item.id, {}, {}, status, {}};
        if (item.is_done) message.content.push_back({{}, item.text, {}, {}});
        return message;
    }
    responses::ReasoningItem reasoning{item.id, {}, status, {}, {}};
    if (item.is_done) reasoning.content.push_back({{}, item.text});
    return reasoning;
}

std::string_view ResponseObjectWriter::last_status() const {
    return finish_reason_ == FinishReason::length ? "incomplete" : kDone;
}

std::string ResponseObjectWriter::response_json(std::string_view status, const Usage* usage,
                                                const ApiError* error) const {
    responses::Response response;
    response.id = id_;
    response.created_at = created_;
    response.status = status;
    if (error != nullptr) response.error = {error_word(*error), error->message};
    if (status == "incomplete") response.incomplete_details = {"max_output_tokens"};
    response.instructions = {settings_.instructions};
    response.max_output_tokens = settings_.max_output_tokens;
    response.metadata = {settings_.metadata};
    response.model = head_.model;
    for (const Item& item : items_) {
        if (item.is_done) response.output.push_back(shown(item));
    }
    response.parallel_tool_calls = settings_.parallel_tool_calls;
    if (!settings_.previous_id.empty()) response.previous_response_id = settings_.previous_id;
    response.reasoning = {settings_.reasoning};
    response.store = settings_.is_stored;
    const SamplingParams& sampling = request_.inputs.front().sampling;
    response.temperature = sampling.temperature;
    response.text = {settings_.text};
    response.tool_choice = {settings_.tool_choice};
    response.tools = {settings_.tools};
    response.top_p = sampling.top_p;
    if (usage != nullptr) {
        response.usage = {usage->prompt_tokens, usage->cached_tokens, usage->completion_tokens,
                          usage->reasoning_tokens.value_or(0)};
    }
    return json_of(response);
}

std::string ResponseObjectWriter::whole(std::vector<ChoiceNews> choices, const Usage& usage) {
    ChoiceNews& news = choices.front();
    finish_reason_ = news.finish_reason;
    const auto add_text = [&](Kind kind, std::string& text) {
        if (text.empty()) return;
        Item& item = add_item(kind);
        item.text = std::move(text);
        item.is_done = true;
    };
    if (request_.include_reasoning) add_text(Kind::reasoning, news.said.reasoning);
    add_text(Kind::message, news.said.content);
    for (ToolCallDelta& call : news.said.tool_calls) {
        Item& item = add_item(Kind::call);
        item.call_id = std::move(call.id);
        item.name = std::move(call.name);
        item.text = std::move(call.arguments);
        item.is_done = true;
    }
    std::string body = last_json(usage);
    keep(body);
    return body;
}

std::string ResponseObjectWriter::answer() const {
    nlohmann::ordered_json message = {{"role", "assistant"}, {"content", nullptr}};
    std::string content;
    std::string reasoning;
    for (const Item& item : items_) {
        if (item.kind == Kind::message) content += item.text;
        if (item.kind == Kind::reasoning) reasoning += item.text;
        if (item.kind != Kind::call) continue;
        message["tool_calls"].push_back(
            {{"id", item.call_id},
             {"type", "function"},
             {"function", {{"name", item.name}, {"arguments", item.text}}}});
    }
    if (!content.empty() || !message.contains("tool_calls")) message["content"] = content;
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    return write_json(message);
}

void ResponseObjectWriter::keep(const std::string& body) {
    if (!settings_.is_stored) return;
    std::string messages = settings_.messages;  // "[...]"
    messages.pop_back();
    messages += fmt::format("{}{}]", messages == "[" ? "" : ",", answer());
    store_.put(head_.owner, id_, {body, std::move(messages)});
}

// --- Events ---

ResponseEvent ResponseObjectWriter::event(const char* type) {
    ResponseEvent made;
    made.type = type;
    made.sequence_number = num_events_++;
    return made;
}

ResponseEvent ResponseObjectWriter::event_of_item(const char* type) {
    ResponseEvent made = event(type);
    made.output_index.emplace(items_.size() - 1);
    made.item_id = items_.back().id;
    return made;
}

void ResponseObjectWriter::add(const ResponseEvent& event, StreamEvents& events) {
    events.push_back({.data = json_of(event), .name = std::string(event.type)});
}

void ResponseObjectWriter::say_state(const char* type, std::string_view status,
                                     StreamEvents& events) {
    const std::string json = response_json(status, nullptr, nullptr);
    ResponseEvent made = event(type);
    made.response = Written<responses::Response>{json};
    add(made, events);
}

void ResponseObjectWriter::begin(const Usage&, StreamEvents& events) {
    say_state("response.created", kBegun, events);
    say_state("response.in_progress", kBegun, events);
}

OutputPart ResponseObjectWriter::part_of(const Item& item) const {
    const std::string_view text = item.is_done ? item.text : std::string_view();
    if (item.kind == Kind::message) return responses::OutputText{{}, text, {}, {}};
    return responses::ReasoningText{{}, text};
}

void ResponseObjectWriter::begin_item(StreamEvents& events) {
    const Item& item = items_.back();
    ResponseEvent added = event("response.output_item.added");
    added.output_index.emplace(items_.size() - 1);
    added.item = shown(item);
    add(added, events);
    if (item.kind == Kind::call) return;
    ResponseEvent part = event_of_item("response.content_part.added");
    part.content_index.emplace(0);
    part.part = part_of(item);
    add(part, events);
}

void ResponseObjectWriter::close(StreamEvents& events) {
    if (items_.empty() || items_.back().is_done) return;
    Item& item = items_.back();
    item.is_done = true;
    if (item.kind == Kind::call) {
        ResponseEvent done = event_of_item("response.function_call_arguments.done");
        done.name = item.name;
        done.arguments = item.text;
        add(done, events);
    } else {
        const bool is_message = item.kind == Kind::message;
        ResponseEvent done = event_of_item(is_message ? "response.output_text.done"
                                                      : "response.reasoning_text.done");
        done.content_index.emplace(0);
        done.text = item.text;
        if (is_message) done.logprobs.emplace();
        add(done, events);
        ResponseEvent part = event_of_item("response.content_part.done");
        part.content_index.emplace(0);
        part.part = part_of(item);
        add(part, events);
    }
    ResponseEvent done = event("response.output_item.done");
    done.output_index.emplace(items_.size() - 1);
    done.item = shown(item);
    add(done, events);
}

ResponseObjectWriter::Item& ResponseObjectWriter::open(Kind kind, StreamEvents& events) {
    const bool is_open = !items_.empty() && !items_.back().is_done && items_.back().kind == kind;
    if (!is_open) {
        close(events);
        add_item(kind);
        begin_item(events);
    }
    return items_.back();
}

void ResponseObjectWriter::write_text(Kind kind, const std::string& text, StreamEvents& events) {
    if (text.empty()) return;
    open(kind, events).text += text;
    const bool is_message = kind == Kind::message;
    ResponseEvent delta =
        event_of_item(is_message ? "response.output_text.delta" : "response.reasoning_text.delta");
    delta.content_index.emplace(0);
    delta.delta = text;
    if (is_message) delta.logprobs.emplace();
    add(delta, events);
}

void ResponseObjectWriter::write_call(const ToolCallDelta& call, StreamEvents& events) {
    if (!call.name.empty()) {
        close(events);
        Item& item = add_item(Kind::call);
        item.call_id = call.id;
        item.name = call.name;
        begin_item(events);
    }
    if (call.arguments.empty()) return;
    items_.back().text += call.arguments;
    ResponseEvent delta = event_of_item("response.function_call_arguments.delta");
    delta.delta = call.arguments;
    add(delta, events);
}

void ResponseObjectWriter::news(ChoiceNews news, const Usage&, StreamEvents& events) {
    for (const ToolCallDelta& call : news.said.begun_calls()) write_call(call, events);
    if (request_.include_reasoning) write_text(Kind::reasoning, news.said.reasoning, events);
    write_text(Kind::message, news.said.content, events);
    for (const ToolCallDelta& call : news.said.new_calls()) write_call(call, events);
    if (news.finish_reason) finish_reason_ = news.finish_reason;
}

void ResponseObjectWriter::end(const Usage& usage, StreamEvents& events) {
    close(events);
    const std::string json = last_json(usage);
    ResponseEvent last =
        event(last_status() == kDone ? "response.completed" : "response.incomplete");
    last.response = Written<responses::Response>{json};
    add(last, events);
    keep(json);
}

void ResponseObjectWriter::failure(const ApiError& error, StreamEvents& events) {
    const bool has_begun = num_events_ > 0;
    const std::string json = response_json("failed", nullptr, &error);
    ResponseEvent last = event(has_begun ? "response.failed" : "error");
    if (has_begun) {
        last.response = Written<responses::Response>{json};
    } else {
        last.code = error_word(error);
        last.message = error.message;
    }
    add(last, events);
}

}  // namespace nvllm::server
