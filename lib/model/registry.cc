// Which families exist.
#include "lib/model/registry.h"

#include <array>
#include <string_view>

#include "kernels/error.h"
#include "lib/model/families/bert.h"
#include "lib/model/families/gemma.h"
#include "lib/model/families/gpt2.h"
#include "lib/model/families/llama.h"
#include "lib/model/families/mixtral.h"
#include "lib/model/families/phi3.h"
#include "lib/model/families/qwen2.h"
#include "lib/model/families/qwen3.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyRow, 18> kFamilies = {{
    {"LlamaForCausalLM", make_llama},
    {"MistralForCausalLM", make_llama},
    {"MinistralForCausalLM", make_llama},
    {"SeedOssForCausalLM", make_llama},
    {"CwmForCausalLM", make_llama},
    {"Qwen2ForCausalLM", make_qwen2},
    {"Qwen3ForCausalLM", make_qwen3},
    {"Qwen3MoeForCausalLM", make_qwen3},
    {"MixtralForCausalLM", make_mixtral},
    {"Phi3ForCausalLM", make_phi3},
    {"GemmaForCausalLM", make_gemma},
    {"Gemma2ForCausalLM", make_gemma2},
    {"Gemma3ForCausalLM", make_gemma3},
    {"GPT2LMHeadModel", make_gpt2},
    // Encoders.
    {"BertModel", make_bert},
    {"RobertaModel", make_bert},
    {"XLMRobertaModel", make_bert},
    {"DistilBertModel", make_distilbert},
}};

}  // namespace

std::span<const FamilyRow> model_families() { return kFamilies; }

const FamilyRow& family_of(const ModelConfig& config) {
    if (!config.refusal.empty()) throw Error(ErrorKind::bad_data, config.refusal);
    for (const FamilyRow& family : kFamilies) {
        if (config.text_architecture == family.architecture) return family;
    }
    NVLLM_CHECK(false, "a row for each family of the checkpoint room: " + config.text_architecture);
}

}  // namespace nvllm
