// Bytes as JSON: what is accepted can be written and read again.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const nlohmann::json value =
            nvllm::parse_json({reinterpret_cast<const char*>(data), size}, "input");
        nvllm::parse_json(nvllm::write_json(value), "again");
    } catch (const nvllm::Error&) {
    }
    return 0;
}
