// One line for each request.
#include "lib/server/operations/request_log.h"

#include <fmt/format.h>

#include "lib/base/log.h"

namespace nvllm::server {

void log_request(const CompletedRequest& completed) {
    const HttpRequest& request = completed.request;
    const RequestNotes::Values& notes = completed.notes;
    constexpr bool kInMessage = true;
    std::vector<LogField> fields = {
        {"method", request.method, kInMessage},
        {"path", request.path, kInMessage},
        {"status", int64_t{completed.status}, kInMessage},
        {"seconds", completed.seconds, kInMessage},
        {"bytes", static_cast<int64_t>(completed.bytes), kInMessage},
        {"request_id", completed.request_id},
    };
    for (const auto& [name, text] :
         {std::pair("model", &notes.model), std::pair("key", &notes.key),
          std::pair("error", &notes.error), std::pair("param", &notes.param)}) {
        if (!text->empty()) fields.push_back({name, *text});
    }
    if (notes.usage.prompt_tokens > 0) {
        fields.push_back({"prompt_tokens", notes.usage.prompt_tokens});
        fields.push_back({"cached_tokens", notes.usage.cached_tokens});
        fields.push_back({"generated_tokens", notes.usage.completion_tokens});
    }
    log_message(LogLevel::info,
                fmt::format("{} {} {} {:.3f} s {} bytes", request.method, request.path,
                            completed.status, completed.seconds, completed.bytes),
                fields);
}

}  // namespace nvllm::server
