// Which formats published chat templates show.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "lib/chat/output/output_parser.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

struct Published {
    const char* name;
    const char* tools;
    const char* reasoning;
};

constexpr Published kPublished[] = {
    {"Kimi-K2-Instruct", "kimi_k2", ""},
    {"Kimi-K2-Thinking", "kimi_k2", "kimi_k2"},
    {"moonshotai-Kimi-K2", "kimi_k2", ""},
    {"Qwen3-Coder", "qwen3_coder", ""},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", ""},
    {"Qwen-Qwen3-0.6B", "hermes", "qwen3"},
    {"Qwen-QwQ-32B", "hermes", "qwen3"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", ""},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3_coder", "qwen3"},
    {"ByteDance-Seed-OSS", "seed_oss", "seed_oss"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek_v3", "deepseek_r1"},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek_v31", "deepseek_r1"},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite", "deepseek_r1"},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3_json", ""},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3_json", ""},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", ""},
    {"unsloth-mistral-Devstral-Small-2507", "mistral", ""},
    {"openai-gpt-oss-120b", "openai", "openai_gptoss"},
    {"google-gemma-2-2b-it", "", ""},
};

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST_CASE("the formats of published templates are seen in them") {
    const auto folder = test::shared_data("chat");
    if (folder.empty()) return;
    for (const Published& published : kPublished) {
        const auto path = folder / "templates" / (std::string(published.name) + ".jinja");
        REQUIRE(std::filesystem::exists(path));
        const DetectedFormats found = detect_formats(text_of(path), {});
        INFO(published.name, ": ", found.tools_reason, "; ", found.reasoning_reason);
        CHECK(found.format.tools == published.tools);
        CHECK(found.format.reasoning == published.reasoning);
    }
}

TEST_CASE("what is found in any template is a format that there is, with its reason") {
    const auto folder = test::shared_data("chat");
    if (folder.empty()) return;
    for (const auto& file : std::filesystem::directory_iterator(folder / "templates")) {
        const DetectedFormats found = detect_formats(text_of(file.path()), {});
        CHECK(make_output_parser(found.format, {}).ok());
        CHECK_FALSE(found.tools_reason.empty());
        CHECK_FALSE(found.reasoning_reason.empty());
    }
}

TEST_CASE("the vocabulary tells where the template does not") {
    const DetectedFormats found = detect_formats("{{ tools }}", {"<s>", "[TOOL_CALLS]"});
    CHECK(found.format.tools == "mistral");
    CHECK(found.tools_reason == "the vocabulary has [TOOL_CALLS]");
    CHECK(detect_formats("{{ tools }}", {}).format.tools == "json");
    CHECK(detect_formats("{{ messages }}", {"[TOOL_CALLS]"}).format.tools.empty());
}

}  // namespace
}  // namespace nvllm
