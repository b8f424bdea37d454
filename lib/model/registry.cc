// Which families exist.
#include "lib/model/registry.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

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

constexpr std::array<FamilyRow, 24> kFamilies = {{
    {"LlamaForCausalLM", make_llama},
    {"MistralForCausalLM", make_llama},
    {"Qwen2ForCausalLM", make_qwen2},
    {"Qwen3ForCausalLM", make_qwen3},
    {"Qwen3MoeForCausalLM", make_qwen3},
    {"MixtralForCausalLM", make_mixtral},
    {"Phi3ForCausalLM", make_phi3},
    {"GemmaForCausalLM", make_gemma},
    {"Gemma2ForCausalLM", make_gemma2},
    {"Gemma3ForCausalLM", make_gemma3},
    {"Gemma3ForConditionalGeneration", make_gemma3},
    {"GPT2LMHeadModel", make_gpt2},
    // Saved without the output matrix, to embed with.
    {"LlamaModel", make_llama},
    {"MistralModel", make_llama},
    {"Qwen2Model", make_qwen2},
    {"Qwen3Model", make_qwen3},
    // Encoders.
    {"BertModel", make_bert},
    {"BertForMaskedLM", make_bert},
    {"RobertaModel", make_bert},
    {"RobertaForMaskedLM", make_bert},
    {"XLMRobertaModel", make_bert},
    {"XLMRobertaForMaskedLM", make_bert},
    {"DistilBertModel", make_distilbert},
    {"DistilBertForMaskedLM", make_distilbert},
}};

}  // namespace

std::span<const FamilyRow> model_families() { return kFamilies; }

const FamilyRow& family_of(const ModelConfig& config) {
    std::vector<std::string_view> known;
    for (const FamilyRow& family : kFamilies) {
        if (config.architecture == family.architecture) return family;
        known.push_back(family.architecture);
    }
    throw Error(ErrorKind::bad_data,
                fmt::format("the architecture \"{}\" is not supported; known are {}",
                            config.architecture, fmt::join(known, ", ")));
}

}  // namespace nvllm
