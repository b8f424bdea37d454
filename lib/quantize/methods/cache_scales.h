// Scales of the keys and values that a layer caches, as compressed-tensors' kv_cache_scheme wants
// them.
#pragma once

#include <string>
#include <vector>

#include "lib/quantize/block_solution.h"

namespace nvllm::quantize {

// The attention layer of a block ("model.layers.3.self_attn"), below which its scales lie. Throws
// bad_data for a model whose attention layers have no place for them.
std::string attention_name(const HookedModel& model, int32_t block);

// NAME.k_scale and NAME.v_scale [1] of a block, from the ranges of what its layer caches, in the
// type of its weights. `solved`: the block's, whose channels may have been scaled since. REQUIRES:
// task.cached.
std::vector<NamedTensor> cache_scales(const BlockTask& task, int32_t block,
                                      const std::vector<SolvedLinear>& solved);

}  // namespace nvllm::quantize
