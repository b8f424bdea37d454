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

namespace {

std::string_view anthropic_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 413:
            return "request_too_large";
        case 429:
            return "rate_limit_error";
        case 503:
            return "overloaded_error";
        case 504:
            return "timeout_error";
        default:
            return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

std::string anthropic_body(int status, std::string_view message, std::string_view request_id) {
    responses::AnthropicError error;
    error.error = {anthropic_type(status), message};
    if (!request_id.empty()) error.request_id = request_id;
    return json_of(error);
}

}  // namespace

std::string error_body(const ApiError& error, ErrorForm form, std::string_view request_id) {
    if (form == ErrorForm::openai) return error_body(error);
    return anthropic_body(error.status, error.message, request_id);
}

void put_in_form(ErrorForm form, std::string_view request_id, HttpResponse& response) {
    if (form == ErrorForm::openai || response.error.empty()) return;
    response.body = anthropic_body(response.status, response.message, request_id);
}

HttpResponse error_response(const ApiError& error) {
    HttpResponse response;
    response.status = error.status;
    response.body = error_body(error);
    response.error = error_word(error);
    response.param = error.param;
    response.message = error.message;
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
