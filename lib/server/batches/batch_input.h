// The input of a batch: JSON lines, each a request.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/batches/batch_types.h"

namespace nvllm::server {

struct BatchLine {
    std::string custom_id;  // unique in its batch
    std::string body;       // of the request, as JSON
};

struct BatchInput {
    std::vector<BatchLine> lines;
    std::vector<BatchError> errors;  // the first few; none: the lines may be computed
};

// Every line must name a custom_id of its own, the method POST, `endpoint` as its url, and a body
// that is not to be streamed. Empty lines count as none.
BatchInput read_batch_input(std::string_view content, std::string_view endpoint);

}  // namespace nvllm::server
