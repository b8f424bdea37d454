// The table of families.
#include "lib/checkpoint/family_defaults.h"

#include <algorithm>
#include <array>

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 16> kFamilies = {{
    {.model_type = "llama", .architecture = "LlamaForCausalLM"},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 131072,
     .windows = Windows::all,
     .window = 4096},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .max_positions = 32768,
     .windows = Windows::switched,
     .window = 4096},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .head_dim = 128,
     .max_positions = 32768,
     .windows = Windows::switched,
     .window = 4096},
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .max_positions = 1024,
     .epsilon = 1e-5,
     .activation = "gelu_new",
     .tied = true},
    {.model_type = "gemma",
     .architecture = "GemmaForCausalLM",
     .num_kv_heads = 16,
     .head_dim = 256,
     .max_positions = 8192,
     .activation = "gelu_pytorch_tanh",
     .tied = true},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_positions = 8192,
     .activation = "gelu_pytorch_tanh",
     .tied = true,
     .windows = Windows::alternating,
     .window = 4096},
    {.model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .vocab_size = 262208,
     .num_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_positions = 131072,
     .theta = 1e6,
     .activation = "gelu_pytorch_tanh",
     .tied = true,
     .windows = Windows::five_of_six,
     .window = 4096},
    {.model_type = "gemma3",
     .architecture = "Gemma3ForConditionalGeneration",
     .vocab_size = 262208,
     .num_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_positions = 131072,
     .theta = 1e6,
     .activation = "gelu_pytorch_tanh",
     .tied = true,
     .windows = Windows::five_of_six,
     .window = 4096},
    {.model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .max_positions = 4096,
     .epsilon = 1e-5,
     .windows = Windows::all},
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 131072,
     .epsilon = 1e-5,
     .theta = 1e6,
     .windows = Windows::all},
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .num_kv_heads = 4,
     .max_positions = 32768,
     .windows = Windows::switched,
     .window = 4096},
    {.model_type = "bert",
     .architecture = "BertModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .encoder = true,
     .token_types = 2},
    {.model_type = "roberta",
     .architecture = "RobertaModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .encoder = true,
     .token_types = 2,
     .positions_after_pad = true},
    {.model_type = "xlm-roberta",
     .architecture = "XLMRobertaModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .encoder = true,
     .token_types = 2,
     .positions_after_pad = true},
    {.model_type = "distilbert",
     .architecture = "DistilBertModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .encoder = true},
}};

// Decoders whose body was saved without the output matrix.
constexpr std::array<std::string_view, 4> kBodies = {"LlamaModel", "MistralModel", "Qwen2Model",
                                                     "Qwen3Model"};

constexpr FamilyDefaults kUnknownFamily = {.model_type = "", .architecture = ""};

}  // namespace

const FamilyDefaults& family_defaults(std::string_view model_type, std::string_view architecture) {
    for (const FamilyDefaults& family : kFamilies) {
        if (family.model_type == model_type) return family;
    }
    for (const FamilyDefaults& family : kFamilies) {
        if (family.architecture == architecture) return family;
    }
    return kUnknownFamily;
}

bool is_body_of_decoder(std::string_view architecture) {
    return std::ranges::find(kBodies, architecture) != kBodies.end();
}

}  // namespace nvllm
