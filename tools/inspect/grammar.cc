// nvllm-inspect grammar: whether a schema or grammar compiles, and what it makes of a text.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>

#include "kernels/error.h"
#include "lib/base/error_kinds.h"
#include "lib/base/file.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/view/grammar_report.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{16} << 20;
constexpr const char* kExamples =
    "  nvllm-inspect grammar --json-schema person.json --text '{\"age\": \"7\"}'\n"
    "  nvllm-inspect grammar --regex '[0-9]{3}-[a-z]+' --text 123-\n"
    "  echo '{\"name\": 1}' | nvllm-inspect grammar --json-object\n"
    "\n"
    "Says whether the grammar compiles and in what time; of a text, which comes by\n"
    "--text or standard input, whether it is a whole answer, else where it is refused\n"
    "and what is allowed there. FILE|TEXT: the file of that name when there is one.\n"
    "Exit codes: 0 the text is accepted, or there was none; 65 the grammar is refused,\n"
    "or the text is refused or unfinished.\n";

struct GrammarOptions {
    std::string model;
    std::optional<std::string> json_schema;
    bool json_object = false;
    std::optional<std::string> regex;
    std::optional<std::string> choice;
    std::optional<std::string> grammar;
    std::optional<std::string> structural_tag;
    std::optional<std::string> text;
    bool json = false;
};

OptionList<GrammarOptions> grammar_options() {
    OptionList<GrammarOptions> list("inspect");
    list.add("model", &GrammarOptions::model,
             "The model whose tokens are meant: a directory of a Hugging Face checkpoint, or "
             "org/name[@revision] in the local Hugging Face cache.",
             short_name('m'), value_name("MODEL"), default_text("the bundled demo"),
             refuses_empty(), named_once());
    list.add("json-schema", &GrammarOptions::json_schema, "A JSON schema.",
             value_name("FILE|TEXT"));
    list.add("json-object", &GrammarOptions::json_object, "Any JSON object.");
    list.add("regex", &GrammarOptions::regex, "A regular expression that the whole answer matches.",
             value_name("TEXT"));
    list.add("choice", &GrammarOptions::choice, "A JSON list of texts, one of which is the answer.",
             value_name("JSON"));
    list.add("grammar", &GrammarOptions::grammar,
             "A grammar in EBNF or GBNF; \"root\" is its start.", value_name("FILE|TEXT"));
    list.add("structural-tag", &GrammarOptions::structural_tag, "A structural tag as JSON.",
             value_name("FILE|TEXT"));
    list.add("text", &GrammarOptions::text, "The text to look at.", value_name("TEXT"),
             default_text("standard input, unless it is a terminal"));
    list.add("json", &GrammarOptions::json, "Print JSON.");
    return list;
}

std::string file_or_text(const std::string& value) {
    std::error_code error;
    if (std::filesystem::is_regular_file(value, error)) return read_file(value, kMaxBytes);
    const bool is_text =
        value.find_first_of("{}[]=\n") != std::string::npos || value == "true" || value == "false";
    if (!is_text)
        throw Error(ErrorKind::not_found, value + ": there is no such file, and it is no grammar");
    return value;
}

GrammarSpec asked_for(const GrammarOptions& flags) {
    std::vector<GrammarSpec> specs;
    if (flags.json_object) specs.push_back({GrammarKind::json_object, ""});
    if (flags.json_schema)
        specs.push_back({GrammarKind::json_schema, file_or_text(*flags.json_schema)});
    if (flags.regex) specs.push_back({GrammarKind::regex, *flags.regex});
    if (flags.choice) specs.push_back({GrammarKind::choice, *flags.choice});
    if (flags.grammar) specs.push_back({GrammarKind::grammar, file_or_text(*flags.grammar)});
    if (flags.structural_tag)
        specs.push_back({GrammarKind::structural_tag, file_or_text(*flags.structural_tag)});
    if (specs.size() != 1) {
        throw Error(ErrorKind::usage,
                    "name one grammar: --json-schema, --json-object, --regex, --choice, --grammar "
                    "or --structural-tag");
    }
    return specs.front();
}

// Of standard input, without the line's end that shells add; nothing when it is a terminal or
// empty.
std::optional<std::string> piped_text() {
    if (isatty(STDIN_FILENO) != 0) return std::nullopt;
    std::string text;
    char part[4096];
    for (size_t read = 0; (read = std::fread(part, 1, sizeof part, stdin)) > 0;) {
        text.append(part, read);
        if (text.size() > kMaxBytes)
            throw Error(ErrorKind::bad_data, "the text has more than 16 MiB");
    }
    if (text.empty()) return std::nullopt;
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

int inspect_grammar(const Invocation& invocation) {
    GrammarOptions flags;
    const auto list = grammar_options();
    OptionSet options;
    options.add(list, flags);
    options.add_foreign(hub_name_flags());
    if (answered(invocation, options)) return 0;
    const GrammarSpec spec = asked_for(flags);
    const auto text = flags.text ? flags.text : piped_text();
    const auto directory = resolve_model_directory(named_or_bundled_model(flags.model));
    const auto tokenizer = Tokenizer::load(directory);
    if (tokenizer == nullptr)
        throw Error(ErrorKind::not_found, directory.string() + ": has no tokenizer");
    std::vector<int32_t> ends;
    if (const auto end = tokenizer->eos_id()) ends.push_back(*end);
    const int32_t vocab_size = tokenizer->vocab_size();
    GrammarCompiler compiler(tokenizer, vocab_size, ends);
    const auto report =
        view::report_grammar(compiler, *tokenizer, vocab_size, spec, text).value_or_throw();
    fmt::print("{}",
               flags.json ? view::grammar_report_json(report) : view::grammar_report_text(report));
    return report.has_text && !report.accepted ? exit_code_for(ErrorKind::bad_data) : 0;
}

}  // namespace

Command grammar_command() {
    return {"grammar", "Says what a JSON schema or grammar allows, and why a text is refused.",
            inspect_grammar, kExamples};
}

}  // namespace nvllm::inspect
