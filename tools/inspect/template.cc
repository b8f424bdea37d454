// nvllm-inspect template: conversations to the text that a model is given, line by line.
#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/known_models.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/jinja/template_time.h"
#include "lib/view/template_lines.h"
#include "tools/inspect/answer_lines.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{64} << 20;
constexpr const char* kExamples =
    "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' |\n"
    "      nvllm-inspect template -m models/demo\n"
    "\n"
    "Each line of standard input is an object of the template's variables:\n"
    "\"messages\", \"tools\", \"add_generation_prompt\" ... It is answered by\n"
    "{\"text\": ...}, or {\"error\": ...} and exit code 65 at the end. With a model,\n"
    "the text is what an engine is given: messages are checked, the tokenizer's\n"
    "special tokens (\"bos_token\", \"image_token\" ...) are variables, and\n"
    "add_generation_prompt is true unless the line says otherwise. With --template\n"
    "alone the variables are the line's, as they are.\n";

struct TemplateOptions {
    std::string model;
    std::optional<std::filesystem::path> file;
    std::string name;
    std::optional<std::string> now;
    bool json = true;
};

OptionList<TemplateOptions> template_options() {
    OptionList<TemplateOptions> list("inspect");
    list.add("model", &TemplateOptions::model,
             "Directory of a Hugging Face checkpoint, or org/name[@revision] in the local Hugging "
             "Face cache.",
             short_name('m'), value_name("MODEL"), positional(),
             default_text("the bundled demo, without --template"), refuses_empty(), named_once());
    list.add("template", &TemplateOptions::file, "A template in place of the model's.",
             value_name("FILE"));
    list.add("template-name", &TemplateOptions::name,
             "Which of the model's templates, such as tool_use.", value_name("NAME"),
             default_text("default"));
    list.add("now", &TemplateOptions::now,
             "The time that the template sees, as \"2026-01-02 03:04:05\" or 2026-01-02.",
             value_name("TIME"), default_text("the local time"));
    list.add("json", &TemplateOptions::json, "Answers are JSON lines, with or without this flag.");
    return list;
}

RenderOptions render_options(const TemplateOptions& flags) {
    RenderOptions options;
    if (!flags.now) return options;
    options.now = parse_time(*flags.now);
    if (!options.now) {
        throw Error(ErrorKind::usage,
                    fmt::format("--now: '{}' is no time such as 2026-01-02 03:04:05", *flags.now));
    }
    return options;
}

void refuse_both(const TemplateOptions& flags) {
    if (!flags.file || flags.name.empty()) return;
    throw Error(ErrorKind::usage,
                "--template-name chooses among a model's templates; leave it out with --template");
}

std::string template_text(const TemplateOptions& flags, const Tokenizer* tokenizer) {
    if (flags.file) return read_file(*flags.file, kMaxTemplateBytes);
    if (tokenizer == nullptr) {
        throw Error(ErrorKind::bad_data,
                    "this model has no tokenizer and therefore no chat template; give one with "
                    "--template FILE");
    }
    return flags.name.empty() ? "" : view::template_named(*tokenizer, flags.name);
}

// A mistake in a file that was given is told with the file's name.
template <typename Load>
auto loaded(const TemplateOptions& flags, Load&& load) {
    try {
        return load();
    } catch (const Error& error) {
        if (!flags.file || error.kind() != ErrorKind::bad_data) throw;
        throw Error(ErrorKind::bad_data, flags.file->string() + ": " + error.what());
    }
}

ConversationRenderer load_renderer(const TemplateOptions& flags) {
    const auto directory = resolve_model_directory(named_or_bundled_model(flags.model));
    const auto tokenizer = Tokenizer::load(directory);
    const std::string text = template_text(flags, tokenizer.get());
    return loaded(flags, [&] {
        const bool has_config = std::filesystem::exists(directory / "config.json");
        const std::string type = has_config ? read_model_config(directory).model_type : "";
        ConversationRenderer renderer(tokenizer, type, text);
        if (!renderer.can_render()) view::template_named(*tokenizer, "");
        return renderer;
    });
}

int inspect_template(const Invocation& invocation) {
    TemplateOptions flags;
    const auto list = template_options();
    OptionSet options;
    options.add(list, flags);
    options.add_foreign(hub_name_flags());
    if (answered(invocation, options)) return 0;
    refuse_both(flags);
    const RenderOptions rendering = render_options(flags);
    const auto answer_by = [&](const auto& source) {
        return answer_lines(
            [&](const std::string& line) { return view::render_line(source, line, rendering); },
            true);
    };
    if (!flags.model.empty() || !flags.file) return answer_by(load_renderer(flags));
    const std::string text = read_file(*flags.file, kMaxTemplateBytes);
    return answer_by(loaded(flags, [&] { return ChatTemplate(text); }));
}

}  // namespace

Command template_command() {
    return {"template", "Renders conversations with a chat template, line by line.",
            inspect_template, kExamples};
}

}  // namespace nvllm::inspect
