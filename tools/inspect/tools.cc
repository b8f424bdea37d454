// nvllm-inspect tools: what a parser of tool calls and reasoning makes of texts, line by line.
#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/cli/main_guard.h"
#include "lib/view/output_lines.h"
#include "tools/inspect/answer_lines.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr uint64_t kMaxToolsBytes = uint64_t{16} << 20;
constexpr const char* kExamples =
    "  nvllm-inspect tools --list\n"
    "  echo '{\"text\": \"<tool_call>{\\\"name\\\": \\\"today\\\", \\\"arguments\\\": "
    "{}}</tool_call>\"}' |\n"
    "      nvllm-inspect tools --format hermes\n"
    "\n"
    "Each line of standard input is an object: \"text\", what a model wrote, with its\n"
    "special tokens; \"tools\", the request's tools as OpenAI writes them, or their\n"
    "names; \"prompt_end\", how the prompt ended (\"<think>\\n\"). It is answered by\n"
    "{\"reasoning\": ..., \"content\": ..., \"tool_calls\": [{\"name\": ..., \"arguments\":\n"
    "...}]}, or {\"error\": ...} and exit code 65 at the end. Without --format calls are\n"
    "looked for by the line's \"format\", else as JSON where the line has tools.\n";

struct ToolsOptions {
    std::string format;
    std::string reasoning;
    bool stream = false;
    std::optional<std::filesystem::path> tools;
    bool list = false;
    bool json = true;
};

OptionList<ToolsOptions> tools_options() {
    OptionList<ToolsOptions> list("inspect");
    list.add("format", &ToolsOptions::format, "The tool format, as --list names it.",
             value_name("NAME"), default_text("the line's, or json"));
    list.add("reasoning", &ToolsOptions::reasoning, "The reasoning format, as --list names it.",
             value_name("NAME"), default_text("the line's, or none"));
    list.add("stream", &ToolsOptions::stream,
             "Give the text to the parser one character at a time and merge what it gives.");
    list.add("tools", &ToolsOptions::tools,
             "The tools' schemas, for lines that only name them: a list as in a request, or an "
             "object with a tool for each name.",
             value_name("FILE"));
    list.add("list", &ToolsOptions::list, "Print the formats and exit.");
    list.add("json", &ToolsOptions::json, "Answers are JSON lines, with or without this flag.");
    return list;
}

void print_rows(const char* title, const std::vector<OutputFormatRow>& rows) {
    fmt::print("{}\n", title);
    for (const OutputFormatRow& row : rows) {
        if (!row.alias_of.empty()) {
            fmt::print("  {:<23} the same as {}\n", row.name, row.alias_of);
            continue;
        }
        fmt::print("  {:<23} {}\n  {:<23} {}\n", row.name, row.models, "", row.form);
    }
}

int print_formats() {
    print_rows("Tool formats (--format):", tool_format_rows());
    print_rows("Reasoning formats (--reasoning):", reasoning_format_rows());
    return 0;
}

int inspect_tools(const Invocation& invocation) {
    ToolsOptions flags;
    const auto list = tools_options();
    OptionSet options;
    options.add(list, flags);
    if (answered(invocation, options)) return 0;
    if (flags.list) return print_formats();
    view::OutputLineOptions lines;
    lines.format = {flags.format, flags.reasoning};
    lines.one_character_at_a_time = flags.stream;
    make_output_parser(lines.format, {}).value_or_throw();  // an unknown name ends the program
    if (flags.tools) {
        lines.known_tools =
            view::read_known_tools(read_file(*flags.tools, kMaxToolsBytes), flags.tools->string());
    }
    return answer_lines([&](const std::string& line) { return view::output_line(lines, line); },
                        true);
}

}  // namespace

Command tools_command() {
    return {"tools", "Finds tool calls and reasoning in what models wrote, line by line.",
            inspect_tools, kExamples};
}

}  // namespace nvllm::inspect
