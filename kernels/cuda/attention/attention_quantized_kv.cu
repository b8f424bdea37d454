// Attention on tensor cores over storage of one byte a value, dequantized in registers.
#include "kernels/cuda/attention/attention_tensor_cores.h"

namespace nvllm::cuda {
namespace {

template <typename C>
void attend(const Context& context, const AttentionCall& call, uint32_t splits, bool is_decode) {
    if (call.activation == DType::bf16) {
        launch_tensor_attention<__nv_bfloat16, C>(context, call, splits, is_decode);
    } else {
        launch_tensor_attention<__half, C>(context, call, splits, is_decode);
    }
}

}  // namespace

void attend_quantized_kv(const Context& context, const AttentionCall& call, DType cache_type,
                         uint32_t splits, bool is_decode) {
    if (cache_type == DType::i8) {
        attend<int8_t>(context, call, splits, is_decode);
    } else {
        attend<__nv_fp8_e4m3>(context, call, splits, is_decode);
    }
}

}  // namespace nvllm::cuda
