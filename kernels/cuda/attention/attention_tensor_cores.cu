// Attention on tensor cores over storage in the queries' own type.
#include "kernels/cuda/attention/attention_tensor_cores.h"

namespace nvllm::cuda {

void attend_on_tensor_cores(const Context& context, const AttentionCall& call, uint32_t splits,
                            bool is_decode) {
    if (call.activation == DType::bf16) {
        launch_tensor_attention<__nv_bfloat16, __nv_bfloat16>(context, call, splits, is_decode);
    } else {
        launch_tensor_attention<__half, __half>(context, call, splits, is_decode);
    }
}

}  // namespace nvllm::cuda
