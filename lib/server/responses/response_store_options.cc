// Names and help of the options.
#include "lib/server/responses/response_store_options.h"

namespace nvllm::server {

OptionList<ResponseStoreOptions> response_store_options() {
    OptionList<ResponseStoreOptions> list("api");
    list.group("Limits");
    list.add("max-stored-responses", &ResponseStoreOptions::max_stored_responses,
             "Responses of /v1/responses that are kept for previous_response_id; 0: none.",
             range(0, 1'000'000));
    list.add("max-stored-response-bytes", &ResponseStoreOptions::max_stored_response_bytes,
             "Memory for them; the least recently used go first.", counts_bytes());
    return list;
}

}  // namespace nvllm::server
