// Resolves names to folders and reads the small files in them.
#include "lib/engine/model_choice.h"

#include <fmt/format.h>

#include <system_error>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/checkpoint/quantization_config.h"
#include "lib/engine/adapters/adapter_registry.h"
#include "lib/engine/options/speculation_options.h"

namespace nvllm {
namespace {

constexpr uint64_t kLargestTemplate = uint64_t{4} << 20;

std::filesystem::path resolve(const EngineConfig& config, const std::string& name) {
    return config.model.download_dir.empty()
               ? resolve_model_directory(name)
               : resolve_model_directory(name, config.model.download_dir);
}

}  // namespace

std::filesystem::path model_directory(const EngineConfig& config) {
    std::error_code ignored;
    const bool has_revision = config.model.name.find('@') != std::string::npos ||
                              std::filesystem::exists(config.model.name, ignored);
    if (config.model.revision.empty() || has_revision) return resolve(config, config.model.name);
    return resolve(config, config.model.name + "@" + config.model.revision);
}

std::filesystem::path tokenizer_directory(const EngineConfig& config,
                                          const std::filesystem::path& model) {
    return config.model.tokenizer.empty() ? model : resolve(config, config.model.tokenizer);
}

GenerationConfig chosen_generation_config(const EngineConfig& config,
                                          const std::filesystem::path& model) {
    if (config.model.generation_config == "auto") {
        return read_generation_config(model, config.model.generation_overrides);
    }
    if (config.model.generation_config != "vllm") {
        const std::filesystem::path folder = resolve(config, config.model.generation_config);
        std::error_code ignored;
        if (!std::filesystem::exists(folder / "generation_config.json", ignored)) {
            throw Error(ErrorKind::not_found,
                        fmt::format("--generation-config: {} has no generation_config.json",
                                    folder.string()));
        }
        return read_generation_config(folder, config.model.generation_overrides);
    }
    const GenerationConfig own = read_generation_config(model);
    GenerationConfig chosen = read_generation_config({}, config.model.generation_overrides);
    if (chosen.eos_token_ids.empty()) chosen.eos_token_ids = own.eos_token_ids;
    if (!chosen.bos_token_id) chosen.bos_token_id = own.bos_token_id;
    return chosen;
}

// What has no brace cannot be a template that says anything, so it must be a file.
std::string read_chat_template(const std::string& given) {
    if (given.empty() || given.find('{') != std::string::npos) return given;
    return read_file(given, kLargestTemplate);
}

void check_quantization(const EngineConfig& config, const std::filesystem::path& model) {
    if (config.model.quantization == "auto" || config.model.quantization == "none") return;
    const auto found = read_quantization_config(model);
    if (found && found->method() == config.model.quantization) return;
    throw Error(ErrorKind::usage,
                fmt::format("--quantization {}: {}; leave the flag out to take the weights as they "
                            "are stored{}",
                            config.model.quantization,
                            found ? "the checkpoint is quantized by " + found->method()
                                  : "the checkpoint is not quantized",
                            found ? "" : ", or make a quantized one with nvllm-quantize"));
}

void check_model_choice(const EngineConfig& config) {
    const std::filesystem::path model = model_directory(config);
    check_quantization(config, model);
    tokenizer_directory(config, model);
    chosen_generation_config(config, model);
    read_chat_template(config.model.chat_template);
    const SpeculationSettings speculation = speculation_settings(config.speculation);
    if (!speculation.draft_model.empty()) resolve(config, speculation.draft_model);
    choose_adapters(config.lora);
}

}  // namespace nvllm
