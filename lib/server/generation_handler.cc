// From the body of a completions or chat call to requests in the engine.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/server/handlers.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Names as a header can carry them, whatever the client wrote.
constexpr size_t kMostNames = 32;
constexpr size_t kLongestName = 64;

std::string plain_name(const std::string& name) {
    std::string plain = name.substr(0, kLongestName);
    for (char& letter : plain) {
        if (letter <= ' ' || letter > '~' || letter == ',') letter = '?';
    }
    return plain;
}

std::string joined(const std::vector<std::string>& names) {
    std::vector<std::string> plain;
    for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
        plain.push_back(plain_name(names[i]));
    }
    if (names.size() > kMostNames) plain.emplace_back("...");
    return fmt::format("{}", fmt::join(plain, ", "));
}

// The bytes of all texts in it: templates add to these, and hardly ever drop any.
size_t text_bytes(const Json& value) {
    if (value.is_string()) return value.get_ref<const std::string&>().size();
    size_t bytes = 0;
    if (value.is_structured()) {
        for (const Json& part : value) bytes += text_bytes(part);
    }
    return bytes;
}

size_t prompt_bytes(const RequestInput& input) {
    if (const auto* text = std::get_if<std::string>(&input.prompt)) return text->size();
    if (const auto* chat = std::get_if<ChatVariables>(&input.prompt)) {
        return (*chat)->contains("messages") ? text_bytes((**chat)["messages"]) : 0;
    }
    return 0;
}

Fault too_long_to_encode(size_t bytes, const HostedModel& model) {
    const int64_t least = static_cast<int64_t>(bytes / model.longest_token_bytes());
    return {ErrorKind::bad_data,
            fmt::format("the prompt of {} bytes has at least {} tokens, but the context is {}: "
                        "shorten it",
                        bytes, least, model.engine()->memory_plan().max_model_len),
            "prompt", "context_length_exceeded"};
}

}  // namespace

void Handlers::generate(const ExchangePointer& exchange, bool is_chat) {
    const HttpRequest& request = exchange->request();
    const auto refuse = [&](const ApiError& error) { exchange->respond(error_response(error)); };
    auto body = read_body(request, service_.config);
    if (!body) return refuse(api_error(body.fault()));
    if (!body->is_object()) {
        return refuse({.message = "the request must be a JSON object", .code = "invalid_json"});
    }
    const Json name = body->value("model", Json());
    if (!name.is_null() && !name.is_string()) {
        return refuse({.message = "'model' must be a string", .param = "model"});
    }
    ApiError error;
    const auto model =
        find_ready(service_.models, name.is_null() ? "" : name.get<std::string>(), error);
    if (model == nullptr) return refuse(error);
    auto call = read_call(*body, *model, is_chat);
    if (!call) return refuse(api_error(call.fault()));

    const std::string* authorization = request.header("Authorization");
    std::optional<ApiKey> key;
    if (authorization != nullptr) key = service_.keys.find(*authorization);
    KeyTurn turn;
    if (key) {
        if (const auto exceeded = key->use->enter(KeyUse::Clock::now())) return refuse(*exceeded);
        turn = KeyTurn(key->use);
    }
    auto ticket = AdmissionControl::enter(model->admission(), call->num_sequences(), error);
    if (!ticket) return refuse(error);
    auto prepared = prepare(*call, *model, key ? key->name : "");
    if (!prepared) return refuse(api_error(prepared.fault()));
    int64_t prompt_tokens = 0;
    for (const Request& each : *prepared) {
        prompt_tokens += static_cast<int64_t>(each.prompt_token_ids.size());
    }
    if (const auto full = ticket->add_prompt_tokens(prompt_tokens)) return refuse(*full);
    if (!call->ignored.empty()) {
        exchange->answer_headers.push_back({"x-nvllm-ignored", joined(call->ignored)});
    }
    auto generation = std::make_shared<Generation>(
        std::move(*call), model, exchange, std::move(*ticket), std::move(turn), service_.text,
        [this](const Generation& ended, CallEnd end) { service_.calls.remove(ended, end); });
    service_.calls.add(generation);
    generation->start(std::move(*prepared));
}

Result<GenerationCall> Handlers::read_call(const Json& body, const HostedModel& model,
                                           bool is_chat) const {
    CallLimits limits = model.call_limits();
    limits.max_prompts = service_.config.max_prompts;
    limits.max_messages = service_.config.max_messages;
    limits.max_tools = service_.config.max_tools;
    limits.is_strict = service_.config.strict_fields;
    return is_chat ? read_chat_call(body, model.default_sampling(), limits)
                   : read_completion_call(body, model.default_sampling(), limits);
}

// A text that cannot fit is not even encoded: that would be the client's cheapest way to keep the
// server busy.
Result<std::vector<Request>> Handlers::prepare(const GenerationCall& call, const HostedModel& model,
                                               const std::string& key_name) const {
    const auto most_bytes = static_cast<size_t>(model.engine()->memory_plan().max_model_len) *
                            model.longest_token_bytes();
    std::vector<Request> prepared;
    for (const RequestInput& input : call.inputs) {
        if (const size_t bytes = prompt_bytes(input); bytes > most_bytes) {
            return too_long_to_encode(bytes, model);
        }
        auto request = model.engine()->prepare(input);
        if (!request) return request.fault();
        request->cache_salt = cache_salt(input.cache_salt, key_name);
        prepared.push_back(std::move(*request));
    }
    return prepared;
}

std::string Handlers::cache_salt(const std::string& given, const std::string& key_name) const {
    const std::string& isolation = service_.config.cache_isolation;
    if (isolation == "none") return given;
    const bool by_key = isolation == "key" || service_.keys.size() > 1;
    if (!by_key) return given;
    return fmt::format("{}:{}{}", key_name.size(), key_name, given);
}

}  // namespace nvllm::server
