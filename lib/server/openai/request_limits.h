// What a request may ask for, without the limits of a model.
#pragma once

#include <cstdint>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct RequestLimits {
    int32_t max_prompts = 2048;
    int32_t max_messages = 4096;
    int32_t max_tools = 128;
    int32_t max_logprobs = 20;  // of one token; -1: as many as there are
    int32_t max_json_depth = 64;
    bool is_strict = false;  // unknown fields are refused
    bool allows_streaming = true;
    bool takes_chat_templates = false;  // of requests: --trust-request-chat-template
};

OptionList<RequestLimits> request_limit_options();
OptionList<RequestLimits> request_field_options();

}  // namespace nvllm::server
