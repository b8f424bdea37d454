// Bytes as a safetensors file: the header parser answers or refuses.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/error.h"
#include "lib/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const nvllm::SafetensorsHeader header = nvllm::parse_safetensors_header(bytes, "input");
        for (const nvllm::SafetensorsEntry& entry : header.entries) {
            if (entry.begin > entry.end || entry.end > size) __builtin_trap();
        }
    } catch (const nvllm::Error&) {
    }
    return 0;
}
