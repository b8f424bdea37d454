// nvllm-inspect drafts: the trees of proposed tokens that a step verified.
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/plot/svg_picture.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/view/draft_report.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr const char* kExamples =
    "  nvllm-run --draft-model models/demo-draft --speculative-config '{\"tree_width\": 3}' \\\n"
    "      -p \"Once upon a time\" --step-log steps.jsonl\n"
    "  nvllm-inspect drafts steps.jsonl --model models/demo --svg drafts.svg\n";

struct DraftsOptions {
    std::optional<std::filesystem::path> file;
    uint64_t step = 0;
    std::string model;
    bool json = false;
    std::optional<std::string> svg;
};

OptionList<DraftsOptions> drafts_options() {
    OptionList<DraftsOptions> list("inspect");
    list.add("step-log", &DraftsOptions::file, "What nvllm-run --step-log wrote.",
             value_name("FILE"), positional());
    list.add("step", &DraftsOptions::step, "The plan_number of the step whose trees are shown.",
             value_name("N"), default_text("the last with proposed tokens"));
    list.add("model", &DraftsOptions::model, "Show the texts of tokens, by this model's tokenizer.",
             value_name("MODEL"), short_name('m'), default_text("none"));
    list.add("json", &DraftsOptions::json, "One JSON object, schema nvllm-inspect.drafts/1.");
    list.add("svg", &DraftsOptions::svg, "Write a picture too.", value_name("FILE"));
    return list;
}

int inspect_drafts(const Invocation& invocation) {
    DraftsOptions flags;
    const auto list = drafts_options();
    OptionSet options;
    options.add(list, flags);
    if (answered(invocation, options)) return 0;
    if (!flags.file) throw Error(ErrorKind::usage, "which step log? name a file");
    std::shared_ptr<const Tokenizer> tokenizer;
    if (!flags.model.empty()) tokenizer = Tokenizer::load(resolve_model_directory(flags.model));
    const view::DraftReport report = view::read_draft_report(*flags.file, flags.step);
    if (report.shown.empty() && flags.step != 0) {
        throw Error(ErrorKind::not_found, flags.file->string() + ": step " +
                                              std::to_string(flags.step) +
                                              " is not there, or has no proposed tokens");
    }
    if (flags.svg) write_file(*flags.svg, view::draft_svg(report, tokenizer.get()));
    write_output(flags.json ? write_json(view::draft_json(report, tokenizer.get())) + "\n"
                            : view::draft_text(report, tokenizer.get()));
    return 0;
}

}  // namespace

Command drafts_command() {
    return {"drafts", "Shows the proposed tokens that a step verified, as a tree.", inspect_drafts,
            kExamples};
}

}  // namespace nvllm::inspect
