// Checks in the order of their cost: no prompt is encoded before the request has its permits.
#include "lib/server/requests/request_admission.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/chat/chat_message.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// The bytes of all texts in it.
size_t text_bytes(const Json& value) {
    if (value.is_string()) return value.get_ref<const std::string&>().size();
    size_t bytes = 0;
    if (value.is_structured()) {
        for (const Json& part : value) bytes += text_bytes(part);
    }
    return bytes;
}

// Templates add to these, and hardly ever drop any.
size_t message_bytes(const ChatMessage& message) {
    size_t bytes = 0;
    if (const auto* text = std::get_if<std::string>(&message.content)) bytes = text->size();
    if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
        for (const ContentPart& part : *parts) bytes += part.text.size();
    }
    for (const ToolCall& call : message.tool_calls) bytes += text_bytes(call.arguments);
    return bytes;
}

size_t prompt_bytes(const RequestInput& input) {
    if (const auto* text = std::get_if<std::string>(&input.prompt)) return text->size();
    if (const auto* pair = std::get_if<TextPair>(&input.prompt)) {
        return pair->first.size() + (pair->max_second_tokens ? 0 : pair->second.size());
    }
    const auto* chat = std::get_if<ChatPrompt>(&input.prompt);
    if (chat == nullptr) return 0;
    size_t bytes = 0;
    for (const ChatMessage& message : (*chat)->messages) bytes += message_bytes(message);
    return bytes;
}

Fault too_long_to_encode(size_t bytes, const HostedModel& model) {
    const int64_t least = static_cast<int64_t>(bytes / model.longest_token_bytes());
    return {ErrorKind::bad_data,
            fmt::format("the prompt of {} bytes has at least {} tokens, but the context is {}: "
                        "shorten it",
                        bytes, least, model.engine()->memory_plan().max_model_len),
            "prompt", "context_length_exceeded"};
}

ApiError no_memory() {
    return {.status = 503,
            .message = "memory ran out in a step just now: ask again in a moment",
            .code = "out_of_memory",
            .retry_after_s = 1};
}

ApiError fragmented() {
    return {.status = 503,
            .message =
                "the cache is being put in order, and large requests wait outside: ask again "
                "in a moment",
            .code = "fragmented",
            .retry_after_s = 1};
}

// While blocks are to be moved together (--defrag-threshold), what would take half of those that
// are left has to wait.
ApiError no_such_key() {
    return {.status = 401,
            .message = "the key that this batch was made with is none any more",
            .code = "invalid_api_key"};
}

// A batch may outlive its key.
bool has_lost_its_key(const Applicant& applicant, const std::optional<ApiKey>& key) {
    return applicant.acting_key && !applicant.acting_key->empty() && !key;
}

bool is_too_large_for_now(const HostedModel& model, int64_t prompt_tokens) {
    const double threshold = model.config().scheduling.scheduler.defrag_threshold;
    if (threshold <= 0.0) return false;
    const EngineStats stats = model.engine()->stats();
    if (stats.fragmentation <= threshold) return false;
    const BlockCounts& blocks = stats.cache.blocks;
    const int64_t unused_tokens =
        int64_t{blocks.cached + blocks.free} * model.engine()->memory_plan().block_size;
    return prompt_tokens > unused_tokens / 2;
}

// A text that cannot fit is not even encoded: that would be the client's cheapest way to keep the
// server busy.
Result<std::vector<Request>> prepare(const HostedModel& model, const std::string& adapter,
                                     const std::vector<RequestInput>& inputs) {
    const auto max_bytes = static_cast<size_t>(model.engine()->memory_plan().max_model_len) *
                           model.longest_token_bytes();
    AdapterRef used;
    if (!adapter.empty()) {
        auto found = model.engine()->adapters().find(adapter);
        if (!found) return found.fault();
        used = *std::move(found);
    }
    std::vector<Request> prepared;
    for (const RequestInput& input : inputs) {
        if (const size_t bytes = prompt_bytes(input); bytes > max_bytes) {
            return too_long_to_encode(bytes, model);
        }
        auto request = model.engine()->prepare(input);
        if (!request) return request.fault();
        request->adapter = used;
        prepared.push_back(std::move(*request));
    }
    return prepared;
}

}  // namespace

std::optional<ApiKey> RequestAdmission::key_of(const Applicant& applicant) const {
    if (applicant.acting_key) return keys_.find_named(*applicant.acting_key);
    if (applicant.authorization == nullptr) return std::nullopt;
    return keys_.find(*applicant.authorization);
}

std::optional<ApiError> RequestAdmission::take_permits(const Applicant& applicant,
                                                       const std::optional<ApiKey>& key,
                                                       AdmissionPermit& permit) const {
    if (applicant.model.is_short_of_memory()) return no_memory();
    if (key) {
        if (auto exceeded = key->use->enter(KeyUse::Clock::now())) return exceeded;
        permit.key_permit = KeyPermit(key->use);
    }
    ApiError error;
    auto server = AdmissionControl::enter(server_, 1, error);
    if (!server) return error;
    permit.server = std::move(*server);
    auto model =
        AdmissionControl::enter(applicant.model.admission(), applicant.num_sequences, error);
    if (!model) return error;
    permit.model = std::move(*model);
    return std::nullopt;
}

std::optional<Admitted> RequestAdmission::admit(const Applicant& applicant, ApiError& error) const {
    Admitted admitted;
    // The permits are free before the client knows of the refusal: it may send again at once.
    const auto refuse = [&](ApiError why) {
        admitted.permit.release({});
        error = std::move(why);
        return std::nullopt;
    };
    const auto reject = [&](ApiError why) {
        applicant.model.metrics().rejected(why.code);
        return refuse(std::move(why));
    };
    const auto key = key_of(applicant);
    if (has_lost_its_key(applicant, key)) return refuse(no_such_key());
    if (auto why = take_permits(applicant, key, admitted.permit)) return reject(*why);
    auto prepared = prepare(applicant.model, applicant.adapter, applicant.inputs);
    if (!prepared) {
        Fault fault = prepared.fault();
        if (fault.field == "prompt") fault.field = applicant.prompt_field;
        return refuse(api_error(fault));
    }
    admitted.prepared = std::move(*prepared);
    int64_t prompt_tokens = 0;
    for (Request& request : admitted.prepared) {
        prompt_tokens += static_cast<int64_t>(request.prompt_token_ids.size());
        request.cache_salt = cache_salt(request.cache_salt, key ? key->name : "");
    }
    if (auto full = admitted.permit.model.add_prompt_tokens(prompt_tokens)) return reject(*full);
    if (is_too_large_for_now(applicant.model, prompt_tokens)) return reject(fragmented());
    return admitted;
}

std::string RequestAdmission::cache_salt(const std::string& given,
                                         const std::string& key_name) const {
    if (cache_isolation_ == "none") return given;
    const bool by_key = cache_isolation_ == "key" || keys_.size() > 1;
    if (!by_key) return given;
    return fmt::format("{}:{}{}", key_name.size(), key_name, given);
}

}  // namespace nvllm::server
