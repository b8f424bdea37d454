// Names, help and ranges of the options on requests.
#include "lib/server/openai/request_limits.h"

namespace nvllm::server {
OptionList<RequestLimits> request_limit_options() {
    OptionList<RequestLimits> list("api");
    list.group("Limits");
    list.add("max-prompts", &RequestLimits::max_prompts,
             "Prompts of one completion call, or texts of one embeddings call.", range(1, 16384));
    list.add("max-messages", &RequestLimits::max_messages, "Messages of one chat.",
             range(1, 1'000'000));
    list.add("max-tools", &RequestLimits::max_tools, "Tools of one chat.", range(0, 100'000));
    list.add("max-logprobs", &RequestLimits::max_logprobs,
             "Likeliest tokens that may be asked for beside each one; -1: all of the vocabulary.",
             range(-1, 1'000'000));
    list.add("max-json-depth", &RequestLimits::max_json_depth, "Nesting of a request's JSON.",
             range(4, 1000));
    return list;
}

OptionList<RequestLimits> request_field_options() {
    OptionList<RequestLimits> list("api");
    list.group("Answers");
    list.add("streaming", &RequestLimits::allows_streaming,
             "Answer token by token where a request asks for it; without it such requests are "
             "refused.");
    list.add("strict-fields", &RequestLimits::is_strict,
             "Refuse fields that are not known; else they are named in the answer's "
             "x-nvllm-ignored header.");
    list.add("trust-request-chat-template", &RequestLimits::takes_chat_templates,
             "Take the chat_template of a request in place of the model's; else such requests are "
             "refused.");
    return list;
}

}  // namespace nvllm::server
