// Puts the stages together: whole characters, reasoning, calls, answer.
#include "lib/chat/output/output_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <optional>

#include "lib/base/utf8.h"
#include "lib/chat/output/answer.h"
#include "lib/chat/output/format_tables.h"
#include "lib/chat/output/harmony.h"
#include "lib/chat/output/tool_calls.h"

namespace nvllm {

using output::Answer;
using output::CallSink;
using output::HarmonyOptions;
using output::ParameterTypes;
using output::Reading;
using output::ReasoningTags;
using output::TextReader;
using output::ToolCallFormat;

// Text goes through `text`, whose coroutine splits off the reasoning, into `content`, whose
// coroutine looks for calls. Harmony needs only the first.
struct OutputParser::Machine {
    explicit Machine(const OutputContext& context) : types(context.tools), held(context.held) {}

    ParameterTypes types;
    HeldCalls held;
    ToolCallFormat tool_format;
    ReasoningTags reasoning_tags;
    HarmonyOptions harmony;
    std::function<void(std::string_view)> give_content;

    Answer answer;
    CallSink sink{answer};
    bool in_reasoning = false;
    std::string begun_character;  // its first bytes
    TextReader text;
    TextReader content;
    // After the readers, so that they end before them.
    std::optional<Reading<bool>> text_reading;
    std::optional<Reading<bool>> content_reading;

    void push(std::string_view new_text) {
        begun_character += new_text;
        const size_t held = utf8::incomplete_suffix(begun_character);
        const size_t length = begun_character.size() - held;
        if (length == 0) return;
        pass(std::string_view(begun_character).substr(0, length));
        begun_character.erase(0, length);
        rethrow();
    }
    void end() {
        pass(begun_character);
        begun_character.clear();
        if (text_reading) text.end();
        if (content_reading) content.end();
        rethrow();
    }

  private:
    // What a coroutine threw: want of memory, nothing that a text can cause.
    void rethrow() {
        for (auto* reading : {&text_reading, &content_reading})
            if (*reading && (*reading)->done()) (*reading)->take();
    }
    void pass(std::string_view whole) {
        if (text_reading) {
            text.push(whole);
        } else {
            give_content(whole);
        }
    }
};

OutputParser::OutputParser(std::unique_ptr<Machine> machine) : machine_(std::move(machine)) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

OutputDelta OutputParser::push(std::string_view text) {
    machine_->push(text);
    return machine_->answer.take();
}

OutputDelta OutputParser::finish() {
    machine_->end();
    return machine_->answer.finish();
}

bool OutputParser::in_reasoning() const { return machine_->in_reasoning; }
bool OutputParser::in_call() const { return machine_->answer.in_call(); }
const std::vector<size_t>& OutputParser::call_positions() const {
    return machine_->sink.positions();
}

std::span<const ToolCallDelta> OutputDelta::begun_calls() const {
    const bool goes_on = !tool_calls.empty() && tool_calls.front().name.empty();
    return std::span(tool_calls).first(goes_on ? 1 : 0);
}

std::span<const ToolCallDelta> OutputDelta::new_calls() const {
    return std::span(tool_calls).subspan(begun_calls().size());
}

void OutputDelta::merge(OutputDelta next) {
    reasoning += next.reasoning;
    content += next.content;
    for (ToolCallDelta& call : next.tool_calls) {
        if (tool_calls.empty() || tool_calls.back().index != call.index) {
            tool_calls.push_back(std::move(call));
            continue;
        }
        tool_calls.back().arguments += call.arguments;
    }
}

namespace {

template <typename Entry>
Fault unknown_format(const char* kind, const std::string& name, const std::vector<Entry>& entries) {
    std::vector<std::string_view> names;
    for (const Entry& entry : entries) names.push_back(entry.row.name);
    return Fault{ErrorKind::usage, fmt::format("there is no {} format '{}'; there are {}", kind,
                                               name, fmt::join(names, ", "))};
}

// A coroutine that begins when it is told to; it holds references into the machine.
void start(std::optional<Reading<bool>>& place, Reading<bool> reading) {
    place.emplace(std::move(reading));
    place->start();
}

void start_harmony(OutputParser::Machine& machine, const OutputContext& context, bool finds_calls) {
    machine.harmony.finds_calls = finds_calls;
    machine.harmony.prompt_end = context.prompt_end;
    for (const OfferedTool& tool : context.tools) machine.harmony.functions.push_back(tool.name);
    machine.harmony.held = context.held;
    start(machine.text_reading, output::read_harmony(machine.text, machine.harmony, machine.sink,
                                                     machine.answer, machine.in_reasoning));
}

void start_reasoning(OutputParser::Machine& machine, const ReasoningTags& tags,
                     const std::string& prompt_end) {
    machine.reasoning_tags = tags;
    if (!tags.kept_after.empty()) {
        machine.give_content(tags.kept_after);
        return;
    }
    machine.in_reasoning = output::prompt_opens(tags, prompt_end);
    start(machine.text_reading,
          output::split_reasoning(machine.text, machine.reasoning_tags, machine.answer,
                                  machine.give_content, machine.in_reasoning, machine.held));
}

}  // namespace

Result<OutputParser> make_output_parser(const OutputFormat& format, const OutputContext& context) {
    const auto* tools = output::find_tool_format(format.tools);
    const auto* reasoning = output::find_reasoning_format(format.reasoning);
    if (tools == nullptr && !format.tools.empty())
        return unknown_format("tool", format.tools, output::tool_format_entries());
    if (reasoning == nullptr && !format.reasoning.empty())
        return unknown_format("reasoning", format.reasoning, output::reasoning_format_entries());
    auto machine = std::make_unique<OutputParser::Machine>(context);
    OutputParser::Machine& parts = *machine;
    const bool harmony_calls = tools != nullptr && tools->format == nullptr;
    if (harmony_calls || (reasoning != nullptr && reasoning->row.name == "openai_gptoss")) {
        start_harmony(parts, context, harmony_calls);
        return OutputParser(std::move(machine));
    }
    parts.give_content = [&parts](std::string_view text) { parts.answer.content(text); };
    if (tools != nullptr) {
        parts.tool_format = tools->format();
        parts.give_content = [&parts](std::string_view text) { parts.content.push(text); };
        start(parts.content_reading,
              output::read_content_and_calls(parts.content, parts.tool_format, parts.types,
                                             parts.held, parts.sink, parts.answer));
    }
    if (reasoning != nullptr) start_reasoning(parts, reasoning->tags, context.prompt_end);
    return OutputParser(std::move(machine));
}

}  // namespace nvllm
