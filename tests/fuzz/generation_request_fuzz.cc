// Bytes as the body of a completion and of a chat: a call that makes sense or a fault that names a
// field, never an exception.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/chat/message_form.h"
#include "lib/server/openai/generation_request.h"

namespace {

using namespace nvllm;
using namespace nvllm::server;

constexpr RequestLimits kLimits = {.max_prompts = 8, .max_messages = 8, .max_tools = 4};

void check(const Result<GenerationRequest>& call) {
    if (!call) {
        if (call.fault().message.empty() || call.fault().kind != ErrorKind::bad_data) std::abort();
        return;
    }
    const bool makes_sense = !call->inputs.empty() && call->inputs.size() <= 8 &&
                             call->prompt_texts.size() == call->inputs.size();
    if (!makes_sense) std::abort();
    for (const RequestInput& input : call->inputs) {
        (void)input.sampling.check(1000);
        const auto* chat = std::get_if<ChatPrompt>(&input.prompt);
        if (chat == nullptr) continue;
        const auto& messages = (*chat)->messages;
        const bool has_all = messages_in_form(messages, {}).size() == messages.size() &&
                             messages_in_form(messages, {.takes_parts = true}).size() <= 8;
        if (!has_all) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    nlohmann::ordered_json body;
    try {
        body = parse_ordered_json(text, "input", {.max_keys = 100, .max_parts = 1000});
    } catch (const Error&) {
        return 0;
    }
    if (!body.is_object()) return 0;
    RequestLimits strict = kLimits;
    strict.is_strict = true;
    check(read_completion_request(body, {}, kLimits));
    check(read_chat_request(body, {}, kLimits));
    check(read_chat_request(body, {}, strict));
    return 0;
}
