// Attention on tensor cores over storage of one byte a value, widened in registers.
#include "kernels/cuda/attention/attention_tensor_cores.h"

namespace nvllm::cuda {
namespace {

template <typename C>
void attend(const Context& context, const AttentionCall& call, uint32_t splits, bool few_rows) {
    if (call.activation == DType::bf16) {
        launch_tensor_attention<__nv_bfloat16, C>(context, call, splits, few_rows);
    } else {
        launch_tensor_attention<__half, C>(context, call, splits, few_rows);
    }
}

}  // namespace

void attend_to_byte_storage(const Context& context, const AttentionCall& call, DType cache_type,
                            uint32_t splits, bool few_rows) {
    if (cache_type == DType::i8) {
        attend<int8_t>(context, call, splits, few_rows);
    } else {
        attend<__nv_fp8_e4m3>(context, call, splits, few_rows);
    }
}

}  // namespace nvllm::cuda
