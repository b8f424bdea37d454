// The tables of tool formats and of reasoning formats.
#include "lib/chat/output/format_tables.h"

#include <algorithm>
#include <iterator>

#include "lib/chat/output/formats/tool_formats.h"

namespace nvllm {
namespace output {
namespace {

const std::vector<std::string_view> kHarmonyTokens = {"<|start|>",     "<|channel|>", "<|message|>",
                                                      "<|constrain|>", "<|end|>",     "<|call|>",
                                                      "<|return|>"};
const std::vector<std::string_view> kDeepSeekTokens = {
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"};

// Calls that are JSON objects.
std::vector<ToolFormatEntry> json_call_entries() {
    return {
        {{"hermes",
          "",
          "Qwen2.5, Qwen3, QwQ, Hermes 2 Pro and 3",
          "<tool_call>{\"name\": ..., \"arguments\": {...}}</tool_call>",
          {"<tool_call>", "</tool_call>"}},
         hermes_format},
        {{"llama3_json",
          "",
          "Llama 3.1, 3.2, 3.3",
          "{\"name\": ..., \"parameters\": {...}}, after <|python_tag|> or not",
          {"<|python_tag|>"}},
         llama3_json_format},
        {{"llama4_json", "llama3_json", "", "", {}}, nullptr},
        {{"mistral",
          "",
          "Mistral, Mixtral, Magistral, Devstral, Ministral",
          "[TOOL_CALLS] [{\"name\": ..., \"arguments\": {...}}], or [TOOL_CALLS]NAME[ARGS]{...}",
          {"[TOOL_CALLS]", "[/TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}},
         mistral_format},
        {{"granite",
          "",
          "Granite 3.0 to 3.3",
          "<|tool_call|>[{\"name\": ..., \"arguments\": {...}}]",
          {"<|tool_call|>", "<tool_call>"}},
         granite_format},
        {{"granite4", "hermes", "", "", {}}, nullptr},
        {{"phi4_mini_json",
          "",
          "Phi-4-mini",
          "functools[{\"name\": ..., \"arguments\": {...}}]",
          {"<|tool_call|>", "<|/tool_call|>"}},
         phi4_mini_json_format},
        {{"internlm",
          "",
          "InternLM2, InternLM2.5, InternLM3",
          "<|action_start|><|plugin|>{\"name\": ..., \"parameters\": {...}}<|action_end|>",
          {"<|action_start|>", "<|action_end|>", "<|plugin|>", "<|interpreter|>"}},
         internlm_format},
        {{"jamba",
          "",
          "Jamba 1.5, Jamba 1.6",
          "<tool_calls>[{\"name\": ..., \"arguments\": {...}}]</tool_calls>",
          {"<tool_calls>", "</tool_calls>"}},
         jamba_format},
        {{"json",
          "",
          "models without a format of their own",
          "{\"name\": ..., \"arguments\": {...}} bare, in a list, in a fence or between common "
          "tags",
          {"<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "<|tool_call|>",
           "[TOOL_CALLS]"}},
         generic_json_format},
    };
}

// Calls whose parameters stand between tags.
std::vector<ToolFormatEntry> tagged_call_entries() {
    return {
        {{"qwen3_coder",
          "",
          "Qwen3-Coder, Qwen3.5, Nemotron 3 Nano, Step-3.5",
          "<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>",
          {"<tool_call>", "</tool_call>"}},
         qwen3_coder_format},
        {{"qwen3_xml", "qwen3_coder", "", "", {}}, nullptr},
        {{"seed_oss",
          "",
          "Seed-OSS",
          "<seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function>"
          "</seed:tool_call>",
          {"<seed:tool_call>", "</seed:tool_call>"}},
         seed_oss_format},
        {{"deepseek_v32",
          "",
          "DeepSeek-V3.2, DeepSeek-V4",
          "<｜DSML｜function_calls><｜DSML｜invoke name=\"NAME\"> with parameters",
          {"｜DSML｜"}},
         deepseek_v32_format},
        {{"deepseek_v4", "deepseek_v32", "", "", {}}, nullptr},
        {{"glm45",
          "",
          "GLM-4.5, GLM-4.6, GLM-4.7",
          "<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>",
          {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
           "</arg_value>"}},
         glm45_format},
        {{"glm47", "glm45", "", "", {}}, nullptr},
        {{"minimax_m2",
          "",
          "MiniMax-M2, MiniMax-M2.1",
          "<minimax:tool_call><invoke name=\"NAME\"><parameter name=\"KEY\">VALUE</parameter>",
          {"<minimax:tool_call>", "</minimax:tool_call>"}},
         minimax_m2_format},
    };
}

// Calls in Python, in sections with names of their own, in messages.
std::vector<ToolFormatEntry> further_entries() {
    return {
        {{"pythonic",
          "",
          "Llama 3.2, Llama 4, LFM2, ToolACE",
          "[NAME(KEY=VALUE, ...), ...]",
          {"<|python_start|>", "<|python_end|>", "<|tool_call_start|>", "<|tool_call_end|>"}},
         pythonic_format},
        {{"llama4_pythonic", "pythonic", "", "", {}}, nullptr},
        {{"deepseek_v3", "", "DeepSeek-V3, DeepSeek-R1",
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME, arguments in a "
          "fence",
          kDeepSeekTokens},
         deepseek_v3_format},
        {{"deepseek_v31", "", "DeepSeek-V3.1",
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>",
          kDeepSeekTokens},
         deepseek_v31_format},
        {{"kimi_k2",
          "",
          "Kimi-K2, Kimi-K2-Thinking, Kimi-K2.5",
          "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0"
          "<|tool_call_argument_begin|>{...}<|tool_call_end|>",
          {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
           "<|tool_call_argument_begin|>", "<|tool_call_end|>"}},
         kimi_k2_format},
        {{"openai", "", "gpt-oss",
          "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>",
          kHarmonyTokens},
         nullptr},
    };
}

std::vector<ToolFormatEntry> make_tool_entries() {
    std::vector<ToolFormatEntry> entries;
    for (auto make : {json_call_entries, tagged_call_entries, further_entries}) {
        std::vector<ToolFormatEntry> some = make();
        std::move(some.begin(), some.end(), std::back_inserter(entries));
    }
    return entries;
}

ReasoningTags tags(std::vector<std::string_view> begins, std::vector<std::string_view> ends) {
    ReasoningTags result;
    result.begins = std::move(begins);
    result.ends = std::move(ends);
    return result;
}

std::vector<ReasoningFormatEntry> make_reasoning_entries() {
    const ReasoningTags think = tags({"<think>"}, {"</think>"});
    ReasoningTags kimi = think;
    kimi.content_begins = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"};
    ReasoningTags kept;
    kept.kept_after = "<think>";
    const std::vector<std::string_view> think_tokens = {"<think>", "</think>"};
    return {
        {{"deepseek_r1", "", "DeepSeek-R1 and its distillations, QwQ", "<think>...</think>",
          think_tokens},
         think},
        {{"deepseek_v3", "deepseek_r1", "", "", {}}, {}},
        {{"qwen3", "", "Qwen3, Qwen3.5, Nemotron 3 Nano", "<think>...</think>", think_tokens},
         think},
        {{"glm45", "", "GLM-4.5, GLM-4.6, GLM-4.7", "<think>...</think>", think_tokens}, think},
        {{"minimax_m2", "", "MiniMax-M2", "...</think>; the template opens it", think_tokens},
         think},
        {{"minimax_m2_append_think", "",
          "MiniMax-M2, for clients that send reasoning back as content",
          "reasoning stays in the content, after <think>", think_tokens},
         kept},
        {{"kimi_k2", "", "Kimi-K2-Thinking, Kimi-K2.5",
          "<think>...</think>; a section of calls ends it too", think_tokens},
         kimi},
        {{"mistral", "", "Magistral, Ministral 3", "[THINK]...[/THINK]", {"[THINK]", "[/THINK]"}},
         tags({"[THINK]"}, {"[/THINK]"})},
        {{"granite",
          "",
          "Granite 3.2",
          "Here is my thought process: ... Here is my response: ...",
          {}},
         tags({"Here is my thought process:", "Here's my thought process:"},
              {"Here is my response:", "Here's my response:"})},
        {{"seed_oss",
          "",
          "Seed-OSS",
          "<seed:think>...</seed:think>",
          {"<seed:think>", "</seed:think>"}},
         tags({"<seed:think>"}, {"</seed:think>"})},
        {{"openai_gptoss", "", "gpt-oss", "<|channel|>analysis<|message|>...<|end|>",
          kHarmonyTokens},
         {}},
    };
}

template <typename Entry>
const Entry* find_entry(const std::vector<Entry>& entries, std::string_view name) {
    for (const Entry& entry : entries) {
        if (entry.row.name != name) continue;
        return entry.row.alias_of.empty() ? &entry : find_entry(entries, entry.row.alias_of);
    }
    return nullptr;
}

template <typename Entry>
std::vector<OutputFormatRow> rows_of(const std::vector<Entry>& entries) {
    std::vector<OutputFormatRow> rows;
    for (const Entry& entry : entries) rows.push_back(entry.row);
    return rows;
}

}  // namespace

const std::vector<ToolFormatEntry>& tool_format_entries() {
    static const std::vector<ToolFormatEntry> entries = make_tool_entries();
    return entries;
}

const std::vector<ReasoningFormatEntry>& reasoning_format_entries() {
    static const std::vector<ReasoningFormatEntry> entries = make_reasoning_entries();
    return entries;
}

const ToolFormatEntry* find_tool_format(std::string_view name) {
    return find_entry(tool_format_entries(), name);
}

const ReasoningFormatEntry* find_reasoning_format(std::string_view name) {
    return find_entry(reasoning_format_entries(), name);
}

}  // namespace output

const std::vector<OutputFormatRow>& tool_format_rows() {
    static const auto rows = output::rows_of(output::tool_format_entries());
    return rows;
}

const std::vector<OutputFormatRow>& reasoning_format_rows() {
    static const auto rows = output::rows_of(output::reasoning_format_entries());
    return rows;
}

std::vector<std::string> kept_special_tokens(const OutputFormat& format) {
    std::vector<std::string> kept;
    const auto* tools = output::find_tool_format(format.tools);
    const auto* reasoning = output::find_reasoning_format(format.reasoning);
    if (tools != nullptr)
        kept.insert(kept.end(), tools->row.special_tokens.begin(), tools->row.special_tokens.end());
    if (reasoning != nullptr && !(tools != nullptr && tools->row.name == "openai"))
        kept.insert(kept.end(), reasoning->row.special_tokens.begin(),
                    reasoning->row.special_tokens.end());
    return kept;
}

}  // namespace nvllm
