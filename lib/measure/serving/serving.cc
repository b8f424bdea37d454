// Bodies out, events in.
#include "lib/measure/serving/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;

const Json* member(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> count_member(const Json& object, const char* key) {
    const Json* value = member(object, key);
    if (value == nullptr || !value->is_number_integer() || value->get<int64_t>() < 0) return {};
    return value->get<int64_t>();
}

// The text of a choice's piece, in any of the places where servers put it.
std::string piece_text(const Json& choice, bool chat) {
    std::string text;
    const Json* delta = chat ? member(choice, "delta") : &choice;
    if (delta == nullptr) return text;
    for (const char* key : {"text", "content", "reasoning_content", "reasoning"}) {
        const Json* value = member(*delta, key);
        if (value != nullptr && value->is_string()) text += value->get<std::string>();
    }
    return text;
}

class Recorder : public HttpLoadListener {
  public:
    Recorder(std::span<const WorkItem> items, const ServingOptions& options)
        : options_(options), chat_(is_chat(options.http.path)), states_(items.size()) {
        result.requests.resize(items.size());
        for (size_t i = 0; i < items.size(); ++i) {
            result.requests[i].num_prompt_tokens = static_cast<int64_t>(items[i].prompt_ids.size());
        }
    }

    void sent(size_t index, double time_s) override { result.requests[index].sent_s = time_s; }

    void event(size_t index, double time_s, std::string_view data) override {
        State& state = states_[index];
        if (data == "[DONE]") {
            state.is_complete = true;
            return;
        }
        const Json chunk = parse_json(data, "event");
        if (const Json* error = member(chunk, "error")) {
            throw Error(ErrorKind::unavailable, "the server says: " + write_json(*error));
        }
        RequestRecord& record = result.requests[index];
        take_usage(chunk, record, state);
        const Json* choices = member(chunk, "choices");
        if (choices == nullptr || !choices->is_array() || choices->empty()) return;
        const Json& choice = choices->front();
        const bool ends = member(choice, "finish_reason") != nullptr;
        const std::string text = piece_text(choice, chat_);
        state.is_complete = state.is_complete || ends;
        // A piece of a completion may hold half a character and show nothing yet.
        if (text.empty() && (chat_ || ends)) return;
        record.token_times_s.push_back(time_s);
        record.text += text;
    }

    void ended(size_t index, double time_s, const std::optional<std::string>& error) override {
        RequestRecord& record = result.requests[index];
        const State& state = states_[index];
        record.finished_s = time_s;
        record.error = error;
        if (!error && !state.is_complete) record.error = "the stream ended before it was finished";
        if (!record.error && record.token_times_s.empty()) record.error = "nothing was generated";
        if (state.has_usage) return;
        record.num_output_tokens = static_cast<int64_t>(record.token_times_s.size());
        if (options_.tokenizer != nullptr && !record.text.empty()) {
            record.num_output_tokens = static_cast<int64_t>(
                options_.tokenizer->encode(record.text, {.add_special_tokens = false}).size());
        }
    }

    LoadResult result;

  private:
    struct State {
        bool is_complete = false;
        bool has_usage = false;
    };

    static void take_usage(const Json& chunk, RequestRecord& record, State& state) {
        const Json* usage = member(chunk, "usage");
        if (usage == nullptr) return;
        if (const auto count = count_member(*usage, "prompt_tokens")) {
            record.num_prompt_tokens = *count;
        }
        if (const auto count = count_member(*usage, "completion_tokens")) {
            record.num_output_tokens = *count;
            state.has_usage = true;
        }
    }

    const ServingOptions& options_;
    bool chat_;
    std::vector<State> states_;
};

}  // namespace

bool is_chat(const std::string& path) { return path.ends_with("chat/completions"); }

std::string request_body(const WorkItem& item, const ServingOptions& options) {
    Json body = {{"model", item.adapter.empty() ? options.model : item.adapter},
                 {"temperature", options.temperature},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}}};
    if (is_chat(options.http.path)) {
        NVLLM_CHECK(!item.text.empty(), "a chat needs text");
        body["messages"] = Json::array({{{"role", "user"}, {"content", item.text}}});
        body["max_completion_tokens"] = item.num_output_tokens;
    } else {
        body["prompt"] = item.text.empty() ? Json(item.prompt_ids) : Json(item.text);
        body["max_tokens"] = item.num_output_tokens;
    }
    if (!options.schema.empty()) {
        body["response_format"] = {
            {"type", "json_schema"},
            {"json_schema",
             {{"name", "answer"}, {"schema", parse_json(options.schema, "--structured-output")}}}};
    } else if (options.ignore_eos && item.ignore_eos) {
        body["ignore_eos"] = true;
    }
    if (!options.extra_body.empty()) {
        const Json extra = parse_json(options.extra_body, "--extra-body");
        if (!extra.is_object()) {
            throw Error(ErrorKind::usage, "--extra-body: not a JSON object");
        }
        body.update(extra);
    }
    return write_json(body);
}

LoadResult measure_serving(std::span<const WorkItem> items, const ServingOptions& options) {
    std::vector<HttpRequest> requests;
    for (const WorkItem& item : items) {
        requests.push_back({request_body(item, options), item.send_at_s});
    }
    Recorder recorder(items, options);
    recorder.result.elapsed_s = run_http_load(requests, options.http, recorder);
    if (const auto signal = stop_signal()) {
        std::erase_if(recorder.result.requests,
                      [](const RequestRecord& request) { return request.finished_s <= 0.0; });
        if (recorder.result.requests.empty()) throw Interrupted{*signal};
    }
    return std::move(recorder.result);
}

std::string served_model(const HttpLoadOptions& http) {
    const std::string body = http_get(http.server, "/v1/models", http.headers, 30.0);
    const Json answer = parse_json(body, "/v1/models");
    const Json* list = member(answer, "data");
    if (list != nullptr && list->is_array() && !list->empty()) {
        const Json* id = member(list->front(), "id");
        if (id != nullptr && id->is_string()) return id->get<std::string>();
    }
    throw Error(ErrorKind::bad_data,
                "/v1/models: the server names no model; give one with --model");
}

}  // namespace nvllm
