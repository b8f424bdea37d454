// Names, help and ranges of the options on timeouts.
#include "lib/server/requests/request_timeouts.h"

#include "lib/server/http/connection_options.h"

namespace nvllm::server {

OptionList<RequestTimeouts> timeout_options() {
    OptionList<RequestTimeouts> list("api");
    list.group("Limits");
    list.add("queue-timeout", &RequestTimeouts::queue_s,
             "Seconds a request may wait to be begun; 0: any time.", alias("max-wait-time"),
             value_name("S"), range(0.0, kMaxTimeoutSeconds));
    list.add("request-timeout", &RequestTimeouts::request_s,
             "Seconds for a whole answer; 0: any time.", alias("timeout"), value_name("S"),
             range(0.0, kMaxTimeoutSeconds));
    return list;
}

OptionList<RequestTimeouts> partial_response_options() {
    OptionList<RequestTimeouts> list("api");
    list.group("Answers");
    list.add("partial-answer-on-timeout", &RequestTimeouts::gives_partial_response,
             "After --request-timeout answer with what there is.");
    return list;
}

}  // namespace nvllm::server
