// Any bytes as a chat template: refused, failed within its budgets, or rendered.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/error.h"
#include "lib/chat/chat_template.h"

namespace {

const nlohmann::ordered_json& variables() {
    static const auto kVariables = nlohmann::ordered_json::parse(
        R"({"messages": [{"role": "user", "content": "Hi \u4e2d"}, {"role": "assistant", "content": null,
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}],
            "tools": [{"type": "function", "function": {"name": "f"}}], "bos_token": "<s>", "n": 3,
            "add_generation_prompt": true})");
    return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    nvllm::RenderOptions options;
    options.max_steps = 20'000;
    options.max_output_bytes = 1 << 20;
    options.now = std::tm{};
    try {
        const nvllm::ChatTemplate chat(std::string(reinterpret_cast<const char*>(data), size));
        const auto result = chat.render(variables(), options);
        if (!result.ok()) return 0;
        size_t end = 0;
        for (const auto& range : result->from_messages) {
            if (range.begin < end || range.end <= range.begin || range.end > result->text.size())
                __builtin_trap();
            end = range.end;
        }
    } catch (const nvllm::Error&) {
        // The only way to refuse.
    }
    return 0;
}
