// Formats from options and templates; grammars of requests.
#include "lib/server/openai/model_output.h"

#include <fmt/format.h>

#include "lib/chat/output/answer_grammar.h"
#include "lib/engine/input_processor.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::server {
namespace {

std::vector<std::string> special_tokens_of(const Tokenizer& tokenizer) {
    std::vector<std::string> texts;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        if (tokenizer.is_special(id)) texts.push_back(tokenizer.token_text(id));
    }
    return texts;
}

std::string chosen(const std::string& option, const std::string& found) {
    if (option == "none") return {};
    return option == "auto" ? found : option;
}

std::string summary_of(const OutputFormatOptions& options, const DetectedFormats& found) {
    std::string summary;
    const auto add = [&](const char* what, const std::string& option, const std::string& format,
                         const std::string& reason) {
        if (option != "auto" || format.empty() || format == "json") return;
        summary += fmt::format("{}{} as {}: {}", summary.empty() ? "" : "; ", what, format, reason);
    };
    add("tool calls are read", options.tool_calls, found.format.tools, found.tools_reason);
    add("reasoning is told apart", options.reasoning, found.format.reasoning,
        found.reasoning_reason);
    return summary;
}

Fault cannot_hold(const char* field, const ModelOutput& model, const char* what) {
    return {ErrorKind::bad_data,
            fmt::format("'{}': calls in the form '{}' cannot be held to a grammar, so {}", field,
                        model.format.tools, what),
            field, "unsupported_parameter"};
}

// Of what may be called, where the answer is held to it.
std::optional<Fault> add_calls(const ModelOutput& model, GenerationRequest& request,
                               AnswerGrammarRequest& grammar) {
    const ToolRequest& tools = request.tool_request;
    const bool has_format = request.inputs.front().grammar.has_value();
    const bool is_required = tools.use == ToolUse::required;
    const bool is_held = is_required || tools.is_strict || tools.is_narrowed() || has_format;
    if (tools.use == ToolUse::none || !is_held) return std::nullopt;
    grammar.calls = {.tool_format = model.format.tools,
                     .tools = tools.callable,
                     .choice = is_required ? ToolChoice::required : ToolChoice::automatic,
                     .several_calls = tools.several_calls,
                     .special_tokens = model.special_tokens};
    if (tool_structural_tag(*grammar.calls)) return std::nullopt;
    if (is_required) return cannot_hold("tool_choice", model, "the model cannot be made to call");
    if (tools.is_narrowed())
        return cannot_hold("tool_choice", model, "the model cannot be kept from other functions");
    if (has_format) {
        return cannot_hold("response_format", model,
                           "it cannot be asked for beside tools that the model may call");
    }
    request.ignored.emplace_back("tools.function.strict");
    grammar.calls.reset();
    return std::nullopt;
}

std::optional<Fault> set_grammar(const ModelOutput& model, GenerationRequest& request) {
    RequestInput& input = request.inputs.front();
    AnswerGrammarRequest grammar{.reasoning_format = request.format.reasoning,
                                 .special_tokens = model.special_tokens};
    if (auto fault = add_calls(model, request, grammar)) return fault;
    if (request.tool_request.use != ToolUse::required) grammar.content = input.grammar;
    const bool is_plain = !grammar.calls && grammar.reasoning_format.empty();
    if (is_plain || (!grammar.calls && !grammar.content)) return std::nullopt;
    request.held_calls = held_calls(grammar);
    input.grammar_for_prompt = [grammar](std::string_view prompt_end) {
        return answer_grammar(grammar, prompt_end);
    };
    return std::nullopt;
}

}  // namespace

ModelOutput find_model_output(const OutputFormatOptions& options, const InputProcessor& input,
                              const Tokenizer* tokenizer) {
    ModelOutput output;
    if (tokenizer == nullptr) return output;
    output.special_tokens = special_tokens_of(*tokenizer);
    const std::string sources = input.conversations().sources();
    const DetectedFormats found = detect_formats(sources, output.special_tokens);
    const std::string& tools = found.format.tools;
    output.format.tools = chosen(options.tool_calls, tools.empty() ? "json" : tools);
    output.format.reasoning = chosen(options.reasoning, found.format.reasoning);
    output.shows_tools = sources.find("tools") != std::string::npos;
    output.summary = summary_of(options, found);
    return output;
}

std::optional<Fault> set_output(const ModelOutput& model, GenerationRequest& request) {
    request.format.reasoning = model.format.reasoning;
    if (request.tool_request.use != ToolUse::none) {
        request.format.tools = model.format.tools;
        if (model.format.tools.empty()) {
            return Fault{ErrorKind::bad_data,
                         "'tools' cannot be called at this server: it was started with "
                         "--tool-call-parser none",
                         "tools", "unsupported_parameter"};
        }
        if (!model.shows_tools) request.ignored.emplace_back("tools");
    }
    for (RequestInput& input : request.inputs) {
        input.kept_special_tokens = kept_special_tokens(request.format);
    }
    return set_grammar(model, request);
}

}  // namespace nvllm::server
