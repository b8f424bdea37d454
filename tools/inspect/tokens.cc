// nvllm-inspect tokens: text to token ids and back, line by line.
#include "kernels/error.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/view/token_lines.h"
#include "tools/inspect/answer_lines.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr const char* kExamples =
    "  echo \"Once upon a time\" | nvllm-inspect tokens -m models/demo\n"
    "  nvllm-inspect tokens -m m < a.txt | nvllm-inspect tokens -m m --decode\n"
    "\n"
    "Each line of standard input is answered by one line of JSON, in order and at\n"
    "once. Encoding: a line is a text, or an object {\"text\": ...}; --input-format\n"
    "says which where both are possible. The answer is {\"ids\": [...],\n"
    "\"tokens\": [...]}, tokens in the vocabulary's own spelling. Decoding:\n"
    "{\"ids\": [...]} or [...] gives {\"text\": ...}. A line that cannot be answered\n"
    "gives {\"error\": ...}, and exit code 65 at the end.\n";

struct TokensOptions {
    std::string model;
    bool decode = false;
    bool special = false;
    std::optional<bool> add_special_tokens;
    bool parse_special = true;
    view::LineFormat input_format = view::LineFormat::automatic;
    bool json = true;
};

OptionList<TokensOptions> tokens_options() {
    OptionList<TokensOptions> list("inspect");
    list.add("model", &TokensOptions::model,
             "Directory of a Hugging Face checkpoint, org/name[@revision] in the local Hugging "
             "Face cache, or one tokenizer file.",
             short_name('m'), value_name("MODEL"), positional(), default_text("the bundled demo"),
             refuses_empty(), named_once());
    list.add("decode", &TokensOptions::decode, "Token ids to text.");
    list.add("special", &TokensOptions::special,
             "Encoding: put the model's special tokens around each text. Decoding: show special "
             "tokens.");
    list.add("add-special-tokens", &TokensOptions::add_special_tokens,
             "Put the model's special tokens around each text or not, whatever --special says.",
             default_text("as --special"));
    list.add("parse-special", &TokensOptions::parse_special,
             "Let a special token that is written out in a text be itself.");
    const std::vector<std::pair<std::string, view::LineFormat>> formats = {
        {"auto", view::LineFormat::automatic},
        {"text", view::LineFormat::text},
        {"jsonl", view::LineFormat::jsonl}};
    list.add_choice("input-format", &TokensOptions::input_format,
                    "text: a line is a text; jsonl: it is {\"text\": ...}; auto: jsonl where it is "
                    "such an object, else text.",
                    formats);
    list.add("json", &TokensOptions::json, "Answers are JSON lines, with or without this flag.");
    return list;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& model) {
    if (std::filesystem::is_regular_file(model)) return Tokenizer::load_file(model);
    const auto directory = resolve_model_directory(model);
    auto tokenizer = Tokenizer::load(directory);
    if (tokenizer == nullptr) {
        throw Error(ErrorKind::not_found,
                    directory.string() +
                        ": has no tokenizer (tokenizer.json, tokenizer.model or a tiktoken file)");
    }
    return tokenizer;
}

// What is typed in place of a model is often the text.
std::shared_ptr<const Tokenizer> load_named_tokenizer(const std::string& model) {
    try {
        return load_tokenizer(model);
    } catch (const Error& error) {
        const bool may_be_text = error.kind() == ErrorKind::not_found &&
                                 !std::filesystem::exists(model) &&
                                 model.find('/') == std::string::npos;
        if (!may_be_text) throw;
        throw Error(error.kind(), std::string(error.what()) +
                                      "; texts come by standard input: echo \"TEXT\" | "
                                      "nvllm-inspect tokens");
    }
}

int inspect_tokens(const Invocation& invocation) {
    TokensOptions tokens;
    const auto list = tokens_options();
    OptionSet options;
    options.add(list, tokens);
    options.add_foreign(hub_name_flags());
    if (answered(invocation, options)) return 0;
    const auto tokenizer = load_named_tokenizer(named_or_bundled_model(tokens.model));
    const view::TokenLineOptions how{tokens.input_format,
                                     tokens.add_special_tokens.value_or(tokens.special),
                                     tokens.parse_special, tokens.special};
    if (tokens.decode) {
        return answer_lines(
            [&](const std::string& line) { return view::decode_line(*tokenizer, line, how); },
            true);
    }
    // An empty line is an empty text, unless lines are objects.
    return answer_lines(
        [&](const std::string& line) { return view::encode_line(*tokenizer, line, how); },
        tokens.input_format == view::LineFormat::jsonl);
}

}  // namespace

Command tokens_command() {
    return {"tokens", "Turns text into token ids, or ids into text, line by line.", inspect_tokens,
            kExamples};
}

}  // namespace nvllm::inspect
