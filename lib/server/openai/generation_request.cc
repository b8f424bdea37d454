// Fields that belong to the request; those that say how tokens are chosen are in
// lib/engine/options/request_json.cc.
#include "lib/server/openai/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Of completions, where the client and the model's generation_config.json say nothing.
constexpr int32_t kCompletionTokens = 16;

// The fields of one body, taken out one after the other.
class Fields {
  public:
    // `place`: what goes before a field's name in faults.
    explicit Fields(Json body, std::string path = {})
        : rest_(std::move(body)), path_(std::move(path)) {}

    // Null counts as absent.
    std::optional<Json> take(const char* name) {
        Json value = take_member(rest_, name);
        if (value.is_null()) return std::nullopt;
        return value;
    }

    // `fault_` is kept when the field is there and is no boolean.
    void take_bool(const char* name, bool& target) {
        const auto value = take(name);
        if (!value) return;
        if (value->is_boolean()) {
            target = value->get<bool>();
        } else {
            keep(field_fault(path_ + name, "must be true or false"));
        }
    }

    void take_text(const char* name, std::string& target) {
        const auto value = take(name);
        if (!value) return;
        if (value->is_string()) {
            target = value->get<std::string>();
        } else {
            keep(field_fault(path_ + name, "must be a string"));
        }
    }

    std::optional<int32_t> take_count(const char* name, int32_t min, int32_t max) {
        const auto value = take(name);
        if (!value) return std::nullopt;
        if (value->is_number_integer() && *value >= min && *value <= max)
            return value->get<int32_t>();
        keep(field_fault(path_ + name, fmt::format("must be an integer from {} to {}", min, max)));
        return std::nullopt;
    }

    // A number of logprobs: those of all tokens for -1, where so many may be asked for.
    std::optional<int32_t> take_logprobs(const char* name, int32_t max) {
        const bool has_limit = max >= 0;
        const auto count = take_count(name, has_limit ? 0 : -1, has_limit ? max : INT32_MAX);
        return count == -1 ? INT32_MAX : count;
    }

    void keep(Fault fault) {
        if (!fault_) fault_ = std::move(fault);
    }
    const std::optional<Fault>& fault() const { return fault_; }
    Json& rest() { return rest_; }

  private:
    Json rest_;
    std::string path_;
    std::optional<Fault> fault_;
};

void take_streaming(Fields& fields, const RequestLimits& limits, GenerationRequest& request) {
    fields.take_bool("stream", request.stream);
    if (request.stream && !limits.allows_streaming) {
        fields.keep(unsupported_field("stream", "is switched off at this server (--no-streaming)"));
    }
    fields.take_bool("return_progress", request.return_progress);
    fields.take_bool("return_token_ids", request.return_token_ids);
    fields.take_bool("return_tokens_as_token_ids", request.shows_ids);
    const auto options = fields.take("stream_options");
    if (!options) return;
    if (!options->is_object()) {
        fields.keep(field_fault("stream_options", "must be an object"));
        return;
    }
    if (!request.stream) {
        fields.keep(field_fault("stream_options", "is for streamed answers: set 'stream' to true"));
    }
    Fields inner(*options, "stream_options.");
    bool is_obfuscated = false;
    inner.take_bool("include_usage", request.include_usage);
    inner.take_bool("continuous_usage_stats", request.continuous_usage_stats);
    inner.take_bool("include_obfuscation", is_obfuscated);
    if (inner.fault()) fields.keep(*inner.fault());
}

// With the choice "none" the template shows them all the same, as in vLLM: what was called before
// makes sense beside them.
void take_tools(Fields& fields, const RequestLimits& limits, GenerationRequest& request) {
    const Json tools = fields.take("tools").value_or(Json());
    const Json choice = fields.take("tool_choice").value_or(Json());
    const Json parallel = fields.take("parallel_tool_calls").value_or(Json());
    auto read = read_tool_request({tools, choice, parallel}, limits);
    if (!read) return fields.keep(read.fault());
    request.tool_request = *std::move(read);
    if (!request.tool_request.offered.empty()) fields.rest()["tools"] = tools;
}

// Of completions, which have no tools.
void refuse_tool_choice(Fields& fields) {
    const Json choice = fields.take("tool_choice").value_or(Json("none"));
    if (choice != Json("none") && choice != Json("auto")) {
        fields.keep(unsupported_field("tool_choice",
                                      "can only be none or auto: a completion has no tools"));
    }
}

void take_modalities(Fields& fields) {
    const auto modalities = fields.take("modalities");
    if (modalities && *modalities != Json::array({"text"})) {
        fields.keep(unsupported_field("modalities", "can only be [\"text\"]"));
    }
}

// The fields of `body` that such a request knows. The fields that all requests share, and the names
// of the rest, are in `request`.
Result<Fields> begin(Json body, CallKind kind, const RequestLimits& limits,
                     GenerationRequest& request) {
    auto ignored = take_idle_fields(body, kind, limits.is_strict);
    if (!ignored) return ignored.fault();
    request.ignored = std::move(*ignored);
    Fields fields(std::move(body));
    fields.take_text("model", request.model);
    take_streaming(fields, limits, request);
    if (kind == CallKind::chat) {
        take_tools(fields, limits, request);
    } else {
        refuse_tool_choice(fields);
    }
    take_modalities(fields);
    return fields;
}

// The prompt, sampling and the like.
Result<RequestInput> read_input(Fields& fields, const SamplingParams& defaults,
                                const RequestLimits& limits) {
    if (fields.fault()) return *fields.fault();
    const auto max_messages = static_cast<size_t>(limits.max_messages);
    auto request = request_from_json(fields.rest(), defaults, max_messages);
    if (!request) return request.fault();
    return std::move(request->input);
}

// A template is a program: it may say anything in place of what the model was trained on.
std::optional<Fault> check_template(const Json& body, const RequestLimits& limits) {
    const auto given = body.find("chat_template");
    if (limits.takes_chat_templates || given == body.end() || given->is_null()) return std::nullopt;
    if (*given == Json("")) return std::nullopt;
    return unsupported_field("chat_template",
                             "is refused: this server takes no templates of requests "
                             "(--trust-request-chat-template)");
}

bool has_messages(const Json& body) {
    const auto messages = body.find("messages");
    return messages != body.end() && !messages->is_null();
}

// With max_tokens 0 and echo, the prompt alone comes back; one token is made all the same.
void take_max_tokens(Fields& fields, GenerationRequest& request) {
    const auto found = fields.rest().find("max_tokens");
    if (!request.echo || found == fields.rest().end() || *found != Json(0)) return;
    *found = 1;
    request.is_prompt_only = true;
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(Json body, const RequestLimits& limits) {
    if (auto fault = check_template(body, limits)) return *fault;
    const auto tools = body.find("tools");
    if (tools != body.end() && !tools->is_null()) {
        if (auto fault = check_tools(*tools, limits)) return *fault;
        if (tools->empty()) body.erase(tools);
    }
    const auto max_messages = static_cast<size_t>(limits.max_messages);
    auto request = request_from_json(body, {}, max_messages);
    if (!request) return request.fault();
    return std::get<ChatPrompt>(std::move(request->input.prompt));
}

Result<std::vector<Json>> split_prompts(const Json& prompt, const std::string& field,
                                        const RequestLimits& limits) {
    using Prompts = std::vector<Json>;
    if (prompt.is_string()) return Prompts{prompt};
    if (!prompt.is_array() || prompt.empty()) {
        return field_fault(field, "must be a text, a list of token ids, or a list of either");
    }
    const bool is_one = prompt.front().is_number();
    if (is_one) return Prompts{prompt};
    if (prompt.size() > static_cast<size_t>(limits.max_prompts)) {
        return field_fault(field, fmt::format("has {} entries; it must have at most {}",
                                              prompt.size(), limits.max_prompts));
    }
    for (const Json& each : prompt) {
        const bool is_alike = each.is_string() == prompt.front().is_string();
        if (!is_alike || (!each.is_string() && !each.is_array())) {
            return field_fault(field, "must hold texts only, or lists of token ids only");
        }
    }
    return Prompts(prompt.begin(), prompt.end());
}

std::optional<Fault> set_prompt(const Json& prompt, const std::string& field, RequestInput& input,
                                std::string& text) {
    if (prompt.is_string()) {
        text = prompt.get<std::string>();
        input.prompt = text;
        return std::nullopt;
    }
    auto ids = read_token_ids(prompt, field);
    if (!ids) {
        return field_fault(field, "must be a text, a list of token ids, or a list of either");
    }
    input.prompt = std::move(*ids);
    return std::nullopt;
}

Result<std::vector<int32_t>> read_token_ids(const Json& ids, const std::string& field) {
    if (ids.is_array()) {
        auto read = request_from_json(Json{{"prompt", ids}}, {});
        if (read) return std::get<std::vector<int32_t>>(std::move(read->input.prompt));
    }
    return field_fault(field, "must be a list of token ids");
}

Result<GenerationRequest> read_completion_request(Json body, const SamplingParams& defaults,
                                                  const RequestLimits& limits) {
    GenerationRequest request;
    auto known = begin(std::move(body), CallKind::completion, limits, request);
    if (!known) return known.fault();
    Fields& fields = *known;
    fields.take_bool("echo", request.echo);
    request.logprobs = fields.take_logprobs("logprobs", limits.max_logprobs);
    const auto prompt_logprobs = fields.take_logprobs("prompt_logprobs", limits.max_logprobs);
    const auto prompt = fields.take("prompt");
    if (!prompt) return field_fault("prompt", "is missing");
    take_max_tokens(fields, request);
    auto prompts = split_prompts(*prompt, "prompt", limits);
    if (!prompts) return prompts.fault();
    fields.rest()["prompt"] = "";
    auto input = read_input(fields, defaults, limits);
    if (!input) return input.fault();
    request.prompt_logprobs = prompt_logprobs.has_value();
    input->sampling.logprobs = request.logprobs;
    input->sampling.prompt_logprobs = prompt_logprobs;
    if (request.echo && request.logprobs && !request.prompt_logprobs) {
        input->sampling.prompt_logprobs = request.logprobs;
    }
    if (!input->sampling.max_tokens) {
        input->sampling.max_tokens = std::max(kCompletionTokens, input->sampling.min_tokens);
    }
    for (const Json& each : *prompts) {
        RequestInput one = *input;
        std::string text;
        if (auto fault = set_prompt(each, "prompt", one, text)) return *fault;
        request.inputs.push_back(std::move(one));
        request.prompt_texts.push_back(std::move(text));
    }
    return request;
}

Result<GenerationRequest> read_chat_request(Json body, const SamplingParams& defaults,
                                            const RequestLimits& limits) {
    GenerationRequest request;
    auto known = begin(std::move(body), CallKind::chat, limits, request);
    if (!known) return known.fault();
    Fields& fields = *known;
    request.is_chat = true;
    fields.take_bool("include_reasoning", request.include_reasoning);
    bool wants_logprobs = false;
    fields.take_bool("logprobs", wants_logprobs);
    const auto top = fields.take_logprobs("top_logprobs", limits.max_logprobs);
    const auto prompt_logprobs = fields.take_logprobs("prompt_logprobs", limits.max_logprobs);
    if (top && !wants_logprobs) {
        fields.keep(field_fault("top_logprobs", "needs 'logprobs' set to true"));
    }
    if (!has_messages(fields.rest())) return field_fault("messages", "is missing");
    if (auto fault = check_template(fields.rest(), limits)) fields.keep(*fault);
    auto input = read_input(fields, defaults, limits);
    if (!input) return input.fault();
    request.prompt_logprobs = prompt_logprobs.has_value();
    input->sampling.prompt_logprobs = prompt_logprobs;
    input->sampling.logprobs.reset();
    if (wants_logprobs) input->sampling.logprobs = top.value_or(0);
    request.inputs.push_back(std::move(*input));
    request.prompt_texts.emplace_back();
    return request;
}

}  // namespace nvllm::server
