// Bytes as a request line: a request or a fault, never an exception.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/engine/options/request_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto request =
        nvllm::request_from_json_text(std::string(reinterpret_cast<const char*>(data), size), {});
    if (request) (void)request->input.sampling.check(1000);
    return 0;
}
