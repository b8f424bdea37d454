// nvllm-inspect model: what a model or one of its files is.
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/checkpoint/adapter/adapter_file.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/known_models.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/view/adapter_file_report.h"
#include "lib/view/model_report.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

struct ModelOptions {
    std::string model;
    bool tensors = false;
    bool json = false;
};

OptionList<ModelOptions> model_options() {
    OptionList<ModelOptions> list("inspect");
    list.add("model", &ModelOptions::model,
             "Directory of a Hugging Face checkpoint, org/name[@revision] in the local Hugging "
             "Face cache, or one file: .safetensors, tokenizer.json, tokenizer.model, config.json.",
             short_name('m'), value_name("MODEL"), positional(), default_text("the bundled demo"),
             refuses_empty(), named_once());
    list.add("tensors", &ModelOptions::tensors, "List every tensor too.");
    list.add("json", &ModelOptions::json, "One JSON object, schema nvllm-inspect.model/1.");
    return list;
}

std::vector<view::ListedTensor> listed(const std::vector<MetaTensor>& meta) {
    std::vector<view::ListedTensor> tensors;
    for (const MetaTensor& tensor : meta) {
        tensors.push_back({tensor.name, tensor.dtype, tensor.shape, 0, ""});
        tensors.back().bytes = static_cast<uint64_t>(tensors.back().elements()) *
                               static_cast<uint64_t>(dtype_bytes(tensor.dtype));
    }
    return tensors;
}

view::ModelKnowledge knowledge() {
    return {
        known_architectures(),
        [](const std::filesystem::path& file) { return describe_model_config(file); },
        find_obstacle,
        [](const ModelConfig& config) { return listed(tensors_of_config(config)); },
        [](const std::filesystem::path& directory) -> std::optional<view::QuantizedLinearCounts> {
            const auto linears = quantized_linears(directory);
            if (!linears) return std::nullopt;
            return view::QuantizedLinearCounts{linears->native, linears->widened};
        },
        note_of_weights,
        find_draft_head,
        next_token_layout};
}

int inspect_model(const Invocation& invocation) {
    ModelOptions model;
    const auto list = model_options();
    OptionSet options;
    options.add(list, model);
    options.add_foreign(hub_name_flags());
    if (answered(invocation, options)) return 0;
    const std::string name = named_or_bundled_model(model.model);
    if (std::filesystem::exists(adapter_config_path(name))) {
        const AdapterFile adapter = read_adapter(name);
        write_output(model.json ? write_json(view::adapter_file_json(adapter, model.tensors)) + "\n"
                                : view::adapter_file_text(adapter, model.tensors));
        return 0;
    }
    const bool is_file = std::filesystem::is_regular_file(name);
    const auto report = view::read_model_report(
        is_file ? std::filesystem::path(name) : resolve_model_directory(name), knowledge());
    write_output(model.json ? write_json(view::report_json(report, model.tensors)) + "\n"
                            : view::report_text(report, model.tensors));
    return 0;
}

}  // namespace

Command model_command() {
    return {"model", "Says what a model or an adapter is: shape, weights, tokenizer, template.",
            inspect_model};
}

}  // namespace nvllm::inspect
