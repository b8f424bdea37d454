// Errors as clients of the OpenAI API expect them: a status, and an object with message, type,
// param and code.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/server/http/http_transaction.h"

namespace nvllm::server {

struct ApiError {
    int status = 400;
    std::string message;     // ours, never a library's: what, where, what to do
    std::string code = {};   // "context_length_exceeded"; empty: null
    std::string param = {};  // "messages[3].content"; empty: null
    std::optional<int> retry_after_s = {};
    std::string type = {};  // empty: the usual one of the status
};

// "invalid_request_error", "authentication_error", "rate_limit_error", "server_error", ...
std::string error_type(const ApiError& error);
// Its code, or its type where it has none.
std::string error_word(const ApiError& error);

// {"error": {...}}
std::string error_body(const ApiError& error);

// The same in a form. `request_id` may be empty.
std::string error_body(const ApiError& error, ErrorForm form, std::string_view request_id);
// Writes the body of an error anew; leaves other responses alone.
void put_in_form(ErrorForm form, std::string_view request_id, HttpResponse& response);

// With retry-after, and with x-should-retry: false where the same request would fail again (what
// the official client would otherwise send three times).
HttpResponse error_response(const ApiError& error);

ApiError shutting_down();
ApiError out_of_memory();

// What a request's own fault looks like from outside.
ApiError api_error(const Fault& fault);

}  // namespace nvllm::server
