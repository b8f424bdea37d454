// One list for each object; readers say by asking which keys they use.
#include "lib/checkpoint/quantization_keys.h"

#include <array>
#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace nvllm {
namespace {

// How weights were made, how others run them, and what is repeated elsewhere.
constexpr auto kCompressedTensors = std::to_array<HarmlessKey>({
    {"quantization_status"},
    {"global_compression_ratio"},
    {"version"},
    {"run_compressed"},
    {"use_optimized_inference"},
    {"dequantize", "false"},
});

constexpr auto kArguments = std::to_array<HarmlessKey>({
    {"zp_dtype"},  // the file says it
    {"observer"},  // of the program that made the file
    {"observer_kwargs"},
});

constexpr auto kSparsity = std::to_array<HarmlessKey>({
    {"registry_requires_subclass"},
});

constexpr auto kAwq = std::to_array<HarmlessKey>({
    {"act_group_aware"},
    {"batch_size"},
    {"block_name_to_quantize"},
    {"cache_block_outputs"},
    {"damp_percent"},
    {"dataset"},
    {"desc_act", "false"},
    {"do_fuse"},
    {"exllama_config"},
    {"format"},  // version wins over it
    {"fuse_max_seq_len"},
    {"max_input_length"},
    {"meta"},
    {"model_seqlen"},
    {"module_name_preceding_first_block"},
    {"modules_in_block_to_quantize"},
    {"modules_to_fuse"},
    {"pad_token_id"},
    {"sym"},  // zero points are stored either way
    {"tokenizer"},
    {"true_sequential"},
});

constexpr auto kGptq = std::to_array<HarmlessKey>({
    {"act_group_aware"},
    {"backend"},
    {"batch_size"},
    {"block_name_to_quantize"},
    {"cache_block_outputs"},
    {"damp_auto_increment"},
    {"damp_percent"},
    {"dataset"},
    {"disable_exllama"},
    {"exllama_config"},
    {"format"},  // checkpoint_format wins over it
    {"is_marlin_format", "false"},
    {"max_input_length"},
    {"meta"},
    {"model_file_base_name"},
    {"model_name_or_path"},
    {"model_seqlen"},
    {"module_name_preceding_first_block"},
    // What stays dense has a dense tensor.
    {"modules_in_block_to_quantize"},
    {"mse"},
    {"pad_token_id"},
    {"quantizer"},
    {"static_groups"},
    {"tokenizer"},
    {"true_sequential"},
    {"use_cuda_fp16"},
    {"use_exllama"},
    {"version"},
});

constexpr auto kFp8 = std::to_array<HarmlessKey>({
    {"dequantize", "false"},
    {"expert_dtype", "\"fp8\""},
    {"modules_to_convert"},  // what stays dense has a dense tensor
});

constexpr auto kMxfp4 = std::to_array<HarmlessKey>({
    {"dequantize"},  // how transformers computes
});

constexpr auto kAutoRound = std::to_array<HarmlessKey>({
    // How inputs of 16 bits are kept, and what every layer of integers has.
    {"act_data_type"},
    {"act_dynamic"},
    {"act_group_size"},
    {"act_sym"},
    {"super_group_size"},
    // How weights were made, and what stays dense: that has a dense tensor.
    {"amp"},
    {"autoround_version"},
    {"backend"},
    {"batch_size"},
    {"block_name_to_quantize"},
    {"dataset"},
    {"desc_act", "false"},
    {"damp_percent"},
    {"enable_alg_ext"},
    {"enable_minmax_tuning"},
    {"enable_norm_bias_tuning"},
    {"enable_quanted_input"},
    {"gradient_accumulate_steps"},
    {"iters"},
    {"low_gpu_mem_usage"},
    {"lr"},
    {"minmax_lr"},
    {"model_free"},
    {"modules_in_block_to_quantize"},
    {"nblocks"},
    {"nsamples"},
    {"quant_block_list"},
    {"quant_lm_head"},
    {"sampler"},
    {"scale_dtype"},
    {"seed"},
    {"seqlen"},
    {"static_groups"},
    {"to_quant_block_names"},
    {"true_sequential"},
    // Older files said what the layout is of once more.
    {"version"},
    {"zero_point"},
});

constexpr auto kBitsandbytes = std::to_array<HarmlessKey>({
    {"bnb_4bit_compute_dtype"},  // how others compute
    {"llm_int8_enable_fp32_cpu_offload"},
    {"llm_int8_has_fp16_weight", "false"},
    {"llm_int8_threshold"},  // a note says that it is not used
});

}  // namespace

std::span<const HarmlessKey> harmless_keys(QuantizationObject object) {
    switch (object) {
        case QuantizationObject::compressed_tensors:
            return kCompressedTensors;
        case QuantizationObject::group:
            return {};
        case QuantizationObject::arguments:
            return kArguments;
        case QuantizationObject::sparsity:
            return kSparsity;
        case QuantizationObject::awq:
            return kAwq;
        case QuantizationObject::gptq:
            return kGptq;
        case QuantizationObject::fp8:
            return kFp8;
        case QuantizationObject::mxfp4:
            return kMxfp4;
        case QuantizationObject::modelopt:
            return {};
        case QuantizationObject::auto_round:
            return kAutoRound;
        case QuantizationObject::bitsandbytes:
            return kBitsandbytes;
    }
    NVLLM_CHECK(false, "an object that has a list");
}

void note_unused(const ConfigFields& fields, QuantizationObject object, const std::string& path,
                 std::vector<std::string>& unused) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (std::string& key : unused_keys(fields.json(), fields.asked(), harmless_keys(object))) {
        unused.push_back(prefix + key);
    }
}

}  // namespace nvllm
