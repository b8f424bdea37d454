// A response of response_types.h as an HTTP response.
#pragma once

#include "lib/server/http/http_message.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {

template <typename T>
HttpResponse typed_response(const T& typed, int status = 200) {
    HttpResponse response;
    response.status = status;
    response.body = json_of(typed);
    return response;
}

}  // namespace nvllm::server
