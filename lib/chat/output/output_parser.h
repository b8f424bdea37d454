// The front door to what a model's text means: its reasoning, its content and its tool calls, found
// while the text is generated.
//
// Names of formats are those of vLLM's --tool-call-parser and --reasoning-parser;
// docs/tool-calling.md lists them.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace nvllm {

// A piece of the call number `index`. Pieces of one call follow each other: the first has its name
// (and its id, where the format writes one); the arguments of all together are its JSON text.
struct ToolCallDelta {
    size_t index = 0;
    std::string id = {};
    std::string name = {};
    std::string arguments = {};
};

// What is new. Texts are UTF-8 whose characters are whole.
struct OutputDelta {
    std::string reasoning = {};
    std::string content = {};
    std::vector<ToolCallDelta> tool_calls = {};

    bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
    // The piece of a call that was begun before, and comes before the texts; the calls that begin.
    std::span<const ToolCallDelta> begun_calls() const;
    std::span<const ToolCallDelta> new_calls() const;
    // Appends `next`; a call whose pieces follow each other becomes one entry.
    void merge(OutputDelta next);
};

// A function that the request offers.
struct OfferedTool {
    std::string name;
    std::string parameters = {};  // the JSON schema of its arguments as text; empty: not known
};

// The value of "tools" of a request: OpenAI's objects, the bare functions in them, Anthropic's
// (input_schema), or names. Faults (bad_data) name the position: "tools[1].function.name".
Result<std::vector<OfferedTool>> read_offered_tools(const nlohmann::ordered_json& tools);

struct OutputFormat {
    std::string tools = {};      // a tool format; empty: calls are not looked for
    std::string reasoning = {};  // a reasoning format; empty: it is not split off
};

// The calls of an answer that cannot break once they have begun, because a grammar holds them
// (held_calls() in tool_grammar.h): only the end of the text can cut one. Their arguments are given
// while they come.
struct HeldCalls {
    std::string begin = {};       // how each begins, or its section; empty: none is held so
    std::string after_name = {};  // of harmony: what ends the header of each, after the name
    // Those are not held that have content before them.
    bool only_at_start = false;
    // Those at these positions are: OutputParser::call_positions() of an earlier reading.
    std::vector<size_t> positions = {};
};

struct OutputContext {
    std::vector<OfferedTool> tools = {};
    // How the rendered prompt ends: it shows whether the template opened the thought
    // ("<think>\n") or closed it at once. May be the whole prompt.
    std::string prompt_end = {};
    HeldCalls held = {};
};

// Splits one answer. Every text is given once, in order, as soon as it is known what it is; a call
// is given when it is whole, so that a broken one can be given as content, all of it; a held one is
// given while it comes. Merged deltas do not depend on how the text was cut. Not thread-safe; one
// for each choice.
class OutputParser {
  public:
    struct Machine;
    explicit OutputParser(std::unique_ptr<Machine> machine);
    ~OutputParser();
    OutputParser(OutputParser&&) noexcept;
    OutputParser& operator=(OutputParser&&) noexcept;

    // `text`: the next of the generated text, special tokens written out (kept_special_tokens()).
    // May be cut anywhere, inside a character too.
    OutputDelta push(std::string_view text);
    // The text has ended: what was held back. Nothing may be pushed afterwards.
    OutputDelta finish();

    // Whether what was pushed last belongs to the reasoning; for counting its tokens.
    bool in_reasoning() const;
    // Whether the arguments of the last call have not ended: after finish(), that it was cut.
    bool in_call() const;
    // Where in the text the calls were found that are whole, for HeldCalls.
    const std::vector<size_t>& call_positions() const;

  private:
    std::unique_ptr<Machine> machine_;
};

// A fault (usage) for a name that is not in the tables; it lists those that are.
Result<OutputParser> make_output_parser(const OutputFormat& format, const OutputContext& context);

// A row of the tables of formats.
struct OutputFormatRow {
    std::string_view name;
    std::string_view alias_of;  // another row that this is another name of; else empty
    std::string_view models;    // who writes it
    std::string_view form;      // how it looks, in a line
    // Special tokens of those models that mean something here. Detokenizers leave special tokens
    // out unless they are asked to keep these.
    std::vector<std::string_view> special_tokens;
};
const std::vector<OutputFormatRow>& tool_format_rows();
const std::vector<OutputFormatRow>& reasoning_format_rows();

// The special tokens that must stay in the text for `format`.
std::vector<std::string> kept_special_tokens(const OutputFormat& format);

// The formats that a chat template shows, each with the reason; an empty name where it shows none.
struct DetectedFormats {
    OutputFormat format;
    std::string tools_reason;
    std::string reasoning_reason;
};
// `special_tokens`: texts of the vocabulary's added tokens; tells forms apart that share a
// template.
DetectedFormats detect_formats(std::string_view chat_template,
                               const std::vector<std::string>& special_tokens);

}  // namespace nvllm
