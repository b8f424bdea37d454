// The table of error types and their JSON.
#include "lib/server/http/api_error.h"

#include <fmt/format.h>

#include "lib/base/error_kinds.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {

std::string error_type(const ApiError& error) {
    if (!error.type.empty()) return error.type;
    switch (error.status) {
        case 401:
            return "authentication_error";
        case 429:
            return error.code == "rate_limit_exceeded" ? "rate_limit_error" : "overloaded_error";
        default:
            return error.status >= 500 ? "server_error" : "invalid_request_error";
    }
}

std::string error_word(const ApiError& error) {
    return error.code.empty() ? error_type(error) : error.code;
}

std::string error_body(const ApiError& error) {
    const auto text_or_null = [](const std::string& text) {
        return text.empty() ? std::nullopt : std::optional(text);
    };
    return json_of(responses::Error{{.message = error.message,
                                     .type = error_type(error),
                                     .param = text_or_null(error.param),
                                     .code = text_or_null(error.code)}});
}

HttpResponse error_response(const ApiError& error) {
    HttpResponse response;
    response.status = error.status;
    response.body = error_body(error);
    response.error = error_word(error);
    response.param = error.param;
    if (error.retry_after_s) {
        response.headers.push_back({"Retry-After", fmt::format("{}", *error.retry_after_s)});
    }
    const bool is_final = error.status < 500 ? error.status != 429 && error.status != 408
                                             : error.code == "nonfinite_logits";
    if (is_final) response.headers.push_back({"x-should-retry", "false"});
    if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
    return response;
}

ApiError shutting_down() {
    return {.status = 503,
            .message = "the server is shutting down; ask again elsewhere or later",
            .code = "shutting_down",
            .retry_after_s = 1};
}

ApiError out_of_memory() {
    return {.status = 503,
            .message = "there is no memory left for this request",
            .code = "out_of_memory",
            .retry_after_s = 1};
}

ApiError api_error(const Fault& fault) {
    ApiError error;
    error.status = error_kind_row(fault.kind).http_status;
    error.message = fault.message;
    error.code = fault.code;
    error.param = fault.field;
    if (error.code.empty() && error.status == 500) error.code = "internal_error";
    if (error.status == 503) error.retry_after_s = 1;
    return error;
}

}  // namespace nvllm::server
