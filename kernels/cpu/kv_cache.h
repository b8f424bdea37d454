// CPU versions of kernels/ops/kv_cache.h; views are checked already.
#pragma once

#include "kernels/ops/kv_cache.h"

namespace nvllm::cpu {

void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const ops::KvScales& scales = {});

void copy_blocks(const Context& context, const ConstTensorView& pairs,
                 const ConstTensorView& source, const TensorView& target);

}  // namespace nvllm::cpu
