// Reading the fields of requests of /tokenize and /detokenize.
#include "lib/server/openai/tokenize_request.h"

#include <nlohmann/json.hpp>

#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// The field's value, which is removed from the object; null if it is absent.
Json take(Json& object, const char* field) {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (found == object.end()) return nullptr;
    Json value = std::move(*found);
    object.erase(found);
    return value;
}

Result<ChatPrompt> read_chat(Json body, const RequestLimits& limits) {
    if (take(body, "add_special_tokens") == Json(true)) {
        return field_fault("add_special_tokens", "is for texts: a chat's template writes its own");
    }
    return read_chat_prompt(std::move(body), limits);
}

std::optional<Fault> read_text(const Json& body, TokenizeRequest& request) {
    const char* field = body.is_object() && body.contains("content") ? "content" : "prompt";
    const Json text = body.is_object() ? body.value(field, Json()) : Json();
    if (!text.is_string()) return field_fault(field, "must be a string");
    // llama.cpp's field has another default than vLLM's.
    const Json special = body.value("add_special_tokens", Json(field == std::string("prompt")));
    if (!special.is_boolean()) {
        return field_fault("add_special_tokens", "must be true or false");
    }
    request.input = text.get<std::string>();
    request.add_special_tokens = special.get<bool>();
    return std::nullopt;
}

}  // namespace

Result<TokenizeRequest> read_tokenize_request(Json body, const RequestLimits& limits) {
    TokenizeRequest request;
    const Json wants_texts = take(body, "return_token_strs");
    if (!wants_texts.is_null() && !wants_texts.is_boolean()) {
        return field_fault("return_token_strs", "must be true or false");
    }
    request.return_token_strs = wants_texts == Json(true);
    if (body.is_object() && body.contains("messages")) {
        auto chat = read_chat(std::move(body), limits);
        if (!chat) return chat.fault();
        request.input = std::move(*chat);
    } else if (auto fault = read_text(body, request)) {
        return *fault;
    }
    return request;
}

Result<std::vector<int32_t>> read_detokenize_request(const Json& body) {
    return read_token_ids(body.is_object() ? body.value("tokens", Json()) : Json(), "tokens");
}

}  // namespace nvllm::server
