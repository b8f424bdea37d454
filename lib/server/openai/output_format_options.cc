// Names and help of the options; the formats are those of the tables.
#include "lib/server/openai/output_format_options.h"

#include <vector>

#include "lib/chat/output/output_parser.h"

namespace nvllm::server {
namespace {

std::vector<std::string> names_of(const std::vector<OutputFormatRow>& rows) {
    std::vector<std::string> names = {"auto", "none"};
    for (const OutputFormatRow& row : rows) names.emplace_back(row.name);
    return names;
}

}  // namespace

OptionList<OutputFormatOptions> output_format_options() {
    OptionList<OutputFormatOptions> list("api");
    list.group("Answers");
    list.add("tool-call-parser", &OutputFormatOptions::tool_calls,
             "The form in which models write calls of tools; auto: as the chat template shows it.",
             choices(names_of(tool_format_rows())));
    list.add("reasoning-parser", &OutputFormatOptions::reasoning,
             "The form in which models write their reasoning, which answers have apart; auto: as "
             "the chat template shows it.",
             choices(names_of(reasoning_format_rows())));
    return list;
}

}  // namespace nvllm::server
