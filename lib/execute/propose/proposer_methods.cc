// The rows, and how each method's files are read.
#include "lib/execute/propose/proposer_methods.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "kernels/error.h"
#include "lib/checkpoint/draft_head_config.h"
#include "lib/execute/propose/draft_model.h"
#include "lib/execute/propose/head_proposer.h"
#include "lib/model/drafts/draft_head_loader.h"

namespace nvllm {
namespace {

std::unique_ptr<ModelProposer> make_draft_model(const ProposerSetup& setup,
                                                const ModelConfig& target, ProposerUse use) {
    std::shared_ptr<Model> model;
    if (use == ProposerUse::plans) {
        model = model_metadata(setup.model).model;
    } else {
        model = load_model(setup.model);
    }
    const ModelConfig& config = model->config();
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {}", setup.model.directory.string(), why));
    };
    if (!config.generates) refuse("is a model that generates no text, so it proposes none");
    if (target.encoder || !target.generates) refuse("tokens are proposed to models that generate");
    return std::make_unique<DraftModel>(std::move(model));
}

template <DraftMethod method>
std::unique_ptr<ModelProposer> make_head(const ProposerSetup& setup, const ModelConfig& target,
                                         ProposerUse use) {
    const std::filesystem::path& directory = setup.model.directory;
    const DraftHeadConfig config = read_draft_head_config(directory);
    if (config.method != method) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: is {}, and not of the method {}", directory.string(),
                                config.layout.name, draft_method_name(method)));
    }
    ThreadPool one_thread(1);
    const bool runs = use == ProposerUse::runs;
    auto head = load_draft_head({.directory = directory,
                                 .target_directory = setup.target_directory,
                                 .dtype = setup.model.dtype,
                                 .reading = setup.reading,
                                 .max_model_len = setup.model.max_model_len,
                                 .headers_only = !runs,
                                 .threads = runs ? setup.model.threads : &one_thread,
                                 .device = setup.model.device});
    return std::make_unique<HeadProposer>(std::move(head), target.num_layers);
}

constexpr auto kMethods = std::to_array<ProposerMethod>({
    {"draft_model", "a smaller model of the same vocabulary", false, true, make_draft_model},
    {"eagle", "a head over the model's last hidden states", false, false,
     make_head<DraftMethod::eagle>},
    {"eagle3", "a head over hidden states of several layers of the model", false, false,
     make_head<DraftMethod::eagle3>},
    {"mtp", "next-token layers of the model's own checkpoint", true, false,
     make_head<DraftMethod::mtp>},
});

}  // namespace

std::span<const ProposerMethod> proposer_methods() { return kMethods; }

const ProposerMethod* find_proposer_method(const std::string& name) {
    for (const ProposerMethod& method : kMethods) {
        if (name == method.name) return &method;
    }
    return nullptr;
}

std::unique_ptr<ModelProposer> make_proposer(const ProposerSetup& setup, const ModelConfig& target,
                                             ProposerUse use) {
    const ProposerMethod* const method = find_proposer_method(setup.method);
    NVLLM_CHECK(method != nullptr, "no draft method " + setup.method);
    return method->make(setup, target, use);
}

std::string proposer_method_of(const std::filesystem::path& directory) {
    const auto layout = find_draft_layout(directory);
    if (!layout) return "draft_model";
    return draft_method_name(read_draft_head_config(directory).method);
}

}  // namespace nvllm
