// Any bytes as tokenizer.model or as a tiktoken rank file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/error.h"
#include "lib/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        const auto tokenizer = nvllm::Tokenizer::load_bytes(bytes, "fuzz");
        const auto ids = tokenizer->encode("  The caf\xC3\xA9 \xE4\xB8\xAD 12 <s> ");
        tokenizer->decode(ids, false);
    } catch (const nvllm::Error&) {
        // The only way to refuse.
    }
    return 0;
}
