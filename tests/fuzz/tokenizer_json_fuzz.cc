// Any bytes as tokenizer.json: refused with an Error, or a tokenizer that encodes and decodes
// without fault.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/error.h"
#include "lib/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        const auto tokenizer = nvllm::Tokenizer::load_bytes(bytes, "fuzz");
        const auto ids =
            tokenizer->encode(" The caf\xC3\xA9 \xE4\xB8\xAD\xF0\x9F\x98\x80 123 <s>x</s>\n");
        tokenizer->decode(ids, true);
        for (int32_t id = -1; id < 64; ++id) tokenizer->token_bytes(id);
    } catch (const nvllm::Error&) {
        // The only way to refuse.
    }
    return 0;
}
