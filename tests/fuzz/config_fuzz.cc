// Bytes as config.json: sizes are within limits or the file is refused.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/error.h"
#include "lib/model/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const nvllm::ModelConfig config = nvllm::parse_model_config(
            std::string(reinterpret_cast<const char*>(data), size), "input");
        for (const nvllm::FamilyRow* const family : nvllm::model_families()) {
            if (config.text_architecture != family->architecture) continue;
            if (config.vocab_size <= 0 || config.num_layers <= 0 || config.num_heads <= 0 ||
                config.head_dim <= 0 || config.estimated_parameters() <= 0) {
                __builtin_trap();
            }
        }
    } catch (const nvllm::Error&) {
    }
    return 0;
}
