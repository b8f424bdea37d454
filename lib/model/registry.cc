// Which families exist: each has one declaration and one row here, and all else in its own file.
#include "lib/model/registry.h"

#include <array>
#include <vector>

#include "kernels/error.h"

namespace nvllm {

extern const FamilyRow kLlama;
extern const FamilyRow kLlama4;
extern const FamilyRow kMistral;
extern const FamilyRow kMinistral;
extern const FamilyRow kMinistral3;
extern const FamilyRow kSeedOss;
extern const FamilyRow kCwm;
extern const FamilyRow kQwen2;
extern const FamilyRow kMiMo;
extern const FamilyRow kQwen3;
extern const FamilyRow kQwen3Moe;
extern const FamilyRow kQwen3Next;
extern const FamilyRow kQwen35;
extern const FamilyRow kQwen35Moe;
extern const FamilyRow kMixtral;
extern const FamilyRow kPhi3;
extern const FamilyRow kPhimoe;
extern const FamilyRow kGemma;
extern const FamilyRow kGemma2;
extern const FamilyRow kGemma3;
extern const FamilyRow kGemma4;
extern const FamilyRow kGlm;
extern const FamilyRow kGlm4;
extern const FamilyRow kCohere2;
extern const FamilyRow kHunYuan;
extern const FamilyRow kNemotron;
extern const FamilyRow kOlmo2;
extern const FamilyRow kOlmo3;
extern const FamilyRow kExaone4;
extern const FamilyRow kSmolLm3;
extern const FamilyRow kGranite;
extern const FamilyRow kLfm2;
extern const FamilyRow kLfm2Moe;
extern const FamilyRow kGraniteHybrid;
extern const FamilyRow kFalconH1;
extern const FamilyRow kNemotronH;
extern const FamilyRow kInternLm3;
extern const FamilyRow kErnie;
extern const FamilyRow kHelium;
extern const FamilyRow kGlm4Moe;
extern const FamilyRow kMiniMaxM2;
extern const FamilyRow kQwen2Moe;
extern const FamilyRow kGptOss;
extern const FamilyRow kDeepSeekV2;
extern const FamilyRow kDeepSeekV3;
extern const FamilyRow kGlm4MoeLite;
extern const FamilyRow kKimiLinear;
extern const FamilyRow kDots;
extern const FamilyRow kSolarOpen;
extern const FamilyRow kExaoneMoe;
extern const FamilyRow kHunYuan3;
extern const FamilyRow kStarCoder2;
extern const FamilyRow kPhi;
extern const FamilyRow kStableLm;
extern const FamilyRow kJais2;
extern const FamilyRow kCohere;
extern const FamilyRow kOlmo;
extern const FamilyRow kOlmoe;
extern const FamilyRow kFlexOlmo;
extern const FamilyRow kHunYuanMoe;
extern const FamilyRow kErnieMoe;
extern const FamilyRow kArcee;
extern const FamilyRow kHyperClova;
extern const FamilyRow kMellum;
extern const FamilyRow kGraniteMoe;
extern const FamilyRow kGraniteShared;
extern const FamilyRow kVaultGemma;
extern const FamilyRow kYoutu;
extern const FamilyRow kMamba2;
extern const FamilyRow kBamba;
extern const FamilyRow kTrinity;
extern const FamilyRow kGpt2;
extern const FamilyRow kBert;
extern const FamilyRow kRoberta;
extern const FamilyRow kXlmRoberta;
extern const FamilyRow kDistilBert;
extern const FamilyRow kMpNet;
extern const FamilyRow kModernBert;

namespace {

constexpr auto kFamilies = std::to_array<const FamilyRow*>({
    &kLlama,      &kLlama4,        &kMistral,    &kMinistral,   &kMinistral3, &kSeedOss,
    &kCwm,        &kQwen2,         &kMiMo,       &kQwen3,       &kQwen3Moe,   &kQwen3Next,
    &kQwen35,     &kQwen35Moe,     &kMixtral,    &kPhi3,        &kPhimoe,     &kGemma,
    &kGemma2,     &kGemma3,        &kGemma4,     &kGlm,         &kGlm4,       &kCohere2,
    &kHunYuan,    &kNemotron,      &kOlmo2,      &kOlmo3,       &kExaone4,    &kSmolLm3,
    &kGranite,    &kGraniteHybrid, &kFalconH1,   &kNemotronH,   &kLfm2,       &kLfm2Moe,
    &kInternLm3,  &kErnie,         &kHelium,     &kGlm4Moe,     &kMiniMaxM2,  &kQwen2Moe,
    &kGptOss,     &kDeepSeekV2,    &kDeepSeekV3, &kGlm4MoeLite, &kKimiLinear, &kDots,
    &kSolarOpen,  &kExaoneMoe,     &kHunYuan3,   &kStarCoder2,  &kPhi,        &kStableLm,
    &kJais2,      &kCohere,        &kOlmo,       &kOlmoe,       &kFlexOlmo,   &kHunYuanMoe,
    &kErnieMoe,   &kArcee,         &kHyperClova, &kMellum,      &kGraniteMoe, &kGraniteShared,
    &kVaultGemma, &kYoutu,         &kMamba2,     &kBamba,       &kTrinity,    &kGpt2,
    &kBert,       &kRoberta,       &kXlmRoberta, &kDistilBert,  &kMpNet,      &kModernBert,
});

std::vector<FamilyDefaults> all_configs() {
    std::vector<FamilyDefaults> configs;
    for (const FamilyRow* const family : kFamilies) {
        for (FamilyDefaults config : family->configs) {
            config.architecture = family->architecture;
            configs.push_back(config);
        }
    }
    return configs;
}

}  // namespace

bool is_behind_last_layer(const std::string& tensor, const ModelConfig& config) {
    return tensor.starts_with("model.layers." + std::to_string(config.num_layers) + ".");
}

bool is_below_mtp(const std::string& tensor, const ModelConfig&) {
    return tensor.starts_with("mtp.");
}

std::span<const FamilyRow* const> model_families() { return kFamilies; }

const FamilyRow& family_of(const ModelConfig& config) {
    if (!config.refusal.empty()) throw Error(ErrorKind::bad_data, config.refusal);
    for (const FamilyRow* const family : kFamilies) {
        if (config.text_architecture == family->architecture) return *family;
    }
    NVLLM_CHECK(false, "a config without a refusal has a family: " + config.text_architecture);
}

FamilyTable known_families() {
    static const std::vector<FamilyDefaults> configs = all_configs();
    return configs;
}

ModelConfig read_model_config(const std::filesystem::path& directory) {
    return read_model_config(directory, known_families());
}

ModelConfig parse_model_config(const std::string& json, const std::string& file_name) {
    return parse_model_config(json, file_name, known_families());
}

ModelConfig describe_model_config(const std::filesystem::path& file) {
    return describe_model_config(file, known_families());
}

}  // namespace nvllm
