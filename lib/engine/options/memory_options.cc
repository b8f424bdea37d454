// Names, help and ranges of the options that limit an engine's memory.
#include "lib/engine/options/part_options.h"

namespace nvllm {

OptionList<MemoryRequest> memory_options() {
    OptionList<MemoryRequest> list("engine");
    list.group("Memory");
    list.add("kv-cache-memory-bytes", &MemoryRequest::kv_cache_bytes,
             "Size of the key-value cache, such as 2GiB.", counts_bytes(), at_least(1),
             default_text("4GiB, at most half of what is free"));
    list.add("memory-limit", &MemoryRequest::limit_bytes,
             "Most memory for weights, cache, scratch, --swap-space and --kv-offloading-size "
             "together.",
             counts_bytes(), at_least(1), default_text("none"));
    list.add("gpu-memory-utilization", &MemoryRequest::utilization,
             "Share of the device's free memory to plan with, and to fill with the cache; on the "
             "CPU it is that of the machine.",
             range(0.01, 1.0), default_text("0.9; on the CPU all, of which the cache leaves half"));
    list.add("max-blocks", &MemoryRequest::max_blocks,
             "Blocks of the key-value cache at most, for each kind of layer.", range(1, INT32_MAX),
             default_text("what fits"));
    list.add("max-model-len", &MemoryRequest::max_model_len,
             "Longest prompt and answer together, such as 32k.", takes_suffixes(),
             range(2, INT32_MAX), default_text("the model's own, or what fits"));
    return list;
}

OptionList<MemoryRequest> swap_options() {
    OptionList<MemoryRequest> list("engine");
    list.group("Memory");
    list.add("swap-space", &MemoryRequest::swap_bytes,
             "Memory for blocks of sequences that had to give way, such as 4GiB; a number alone "
             "counts GiB, as in vLLM.",
             counts_gib());
    list.add("kv-offloading-size", &MemoryRequest::offload_bytes,
             "Memory for blocks of the prefix cache that had to leave it, from where they come "
             "back when they are asked for, such as 4GiB; a number alone counts GiB, as in vLLM.",
             counts_gib());
    return list;
}

}  // namespace nvllm
