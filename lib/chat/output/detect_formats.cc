// Which formats a model writes, seen from the markers in its chat template.
#include <fmt/format.h>

#include <algorithm>

#include "lib/chat/output/output_parser.h"

namespace nvllm {
namespace {

struct Sign {
    std::string_view marker;
    std::string_view beside;  // another text that must be there; empty: none
    std::string_view format;
};

// The first that applies counts: the marks of one format may be among another one's.
constexpr Sign kToolSigns[] = {
    {"<|tool_calls_section_begin|>", "", "kimi_k2"},
    {"｜DSML｜", "", "deepseek_v32"},
    {"<｜tool▁calls▁begin｜>", "```json", "deepseek_v3"},
    {"<｜tool▁calls▁begin｜>", "", "deepseek_v31"},
    {"<minimax:tool_call>", "", "minimax_m2"},
    {"<seed:tool_call>", "", "seed_oss"},
    {"<|channel|>", "<|call|>", "openai"},
    {"<arg_key>", "", "glm45"},
    {"<function=", "<parameter=", "qwen3_coder"},
    {"<|action_start|>", "", "internlm"},
    {"[TOOL_CALLS]", "", "mistral"},
    {"functools", "", "phi4_mini_json"},
    {"<|tool|>", "<|/tool|>", "phi4_mini_json"},
    {"<|tool_call_start|>", "", "pythonic"},
    {"<|python_start|>", "", "pythonic"},
    {"[func_name1(", "", "pythonic"},
    {"<tool_calls>", "", "jamba"},
    {"<|tool_call|>", "", "granite"},
    {"<tool_call>", "", "hermes"},
    {"<|python_tag|>", "", "llama3_json"},
    {"\"parameters\": dictionary of argument name", "", "llama3_json"},
};

constexpr Sign kReasoningSigns[] = {
    {"<|channel|>", "analysis", "openai_gptoss"},
    {"[THINK]", "", "mistral"},
    {"<seed:think>", "", "seed_oss"},
    {"Here is my thought process:", "", "granite"},
    {"<think>", "<|tool_calls_section_begin|>", "kimi_k2"},
    {"<think>", "<minimax:tool_call>", "minimax_m2"},
    {"<think>", "<arg_key>", "glm45"},
    {"</think>", "<｜tool▁calls▁begin｜>", "deepseek_r1"},
    {"</think>", "<tool_call>", "qwen3"},
    {"<think>", "", "deepseek_r1"},
    {"</think>", "", "deepseek_r1"},
};

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

std::string reason(const Sign& sign, const char* where) {
    if (sign.beside.empty()) return fmt::format("{} has {}", where, sign.marker);
    return fmt::format("{} has {} and {}", where, sign.marker, sign.beside);
}

template <size_t Count>
const Sign* first_sign(const Sign (&signs)[Count], std::string_view text) {
    const Sign* found = std::find_if(std::begin(signs), std::end(signs), [&](const Sign& sign) {
        return has(text, sign.marker) && has(text, sign.beside);
    });
    return found == std::end(signs) ? nullptr : found;
}

}  // namespace

DetectedFormats detect_formats(std::string_view chat_template,
                               const std::vector<std::string>& special_tokens) {
    std::string tokens;
    for (const std::string& token : special_tokens) tokens += token + "\n";
    DetectedFormats found;
    if (const Sign* sign = first_sign(kToolSigns, chat_template)) {
        found.format.tools = sign->format;
        found.tools_reason = reason(*sign, "the chat template");
    } else if (!has(chat_template, "tools")) {
        found.tools_reason = "the chat template takes no tools";
    } else if (const Sign* token = first_sign(kToolSigns, tokens)) {
        found.format.tools = token->format;
        found.tools_reason = reason(*token, "the vocabulary");
    } else {
        found.format.tools = "json";
        found.tools_reason = "the chat template takes tools and has the markers of no format";
    }
    if (const Sign* sign = first_sign(kReasoningSigns, chat_template)) {
        found.format.reasoning = sign->format;
        found.reasoning_reason = reason(*sign, "the chat template");
    } else {
        found.reasoning_reason = "the chat template has the tags of no reasoning";
    }
    return found;
}

}  // namespace nvllm
