// From the body of a completions or chat call to requests in the engine.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/server/handlers.h"
#include "lib/server/requests/active_generation.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Names as a header can carry them, whatever the client wrote.
constexpr size_t kMaxNames = 32;
constexpr size_t kLongestName = 64;

std::string plain_name(const std::string& name) {
    std::string plain = name.substr(0, kLongestName);
    for (char& letter : plain) {
        if (letter <= ' ' || letter > '~' || letter == ',') letter = '?';
    }
    return plain;
}

}  // namespace

HttpHeader ignored_header(const std::vector<std::string>& names) {
    std::vector<std::string> plain;
    for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
        plain.push_back(plain_name(names[i]));
    }
    if (names.size() > kMaxNames) plain.emplace_back("...");
    return {"x-nvllm-ignored", fmt::format("{}", fmt::join(plain, ", "))};
}

std::vector<HttpHeader> chosen_model(const ModelSet& models, const std::string& name,
                                     const HostedModel& model) {
    if (!name.empty() || models.all().size() < 2) return {};
    return {{"x-nvllm-model", plain_name(model.name())}};
}

void Handlers::generate(const TransactionPointer& transaction, bool is_chat) {
    auto body = body_of(transaction);
    if (!body) return;
    const auto model = model_of(transaction, *body);
    if (model == nullptr) return;
    auto call = read_request(std::move(*body), *model, is_chat);
    if (!call) return transaction->respond(error_response(api_error(call.fault())));
    auto admitted = admit(transaction, *model, is_chat ? "messages" : "prompt", call->inputs,
                          call->num_sequences());
    if (!admitted) return;
    if (!call->ignored.empty()) {
        transaction->response_headers.push_back(ignored_header(call->ignored));
    }
    auto generation = std::make_shared<ActiveGeneration>(
        std::move(*call), model, transaction, std::move(admitted->permit), service_.text, on_end());
    service_.calls.add(generation);
    generation->start(std::move(admitted->prepared));
}

Result<GenerationRequest> Handlers::read_request(Json body, const HostedModel& model,
                                                 bool is_chat) const {
    const RequestLimits& limits = model.request_limits();
    auto call = is_chat
                    ? read_chat_request(std::move(body), model.default_sampling(), limits)
                    : read_completion_request(std::move(body), model.default_sampling(), limits);
    if (!call) return call;
    // Before it takes a place: more sequences than a request may have would keep out all others.
    if (auto wrong = call->inputs.front().sampling.check_counts()) return *wrong;
    if (call->num_sequences() > kMaxSequencesOfRequest) {
        return Fault{ErrorKind::bad_data,
                     fmt::format("{} prompts with {} sequences each are {}; one call may have {}: "
                                 "send several",
                                 call->inputs.size(), call->inputs.front().sampling.num_sequences(),
                                 call->num_sequences(), kMaxSequencesOfRequest),
                     "n"};
    }
    return call;
}

}  // namespace nvllm::server
