// Names, ranges and help of the options of adapters: vLLM's names.
#include "kernels/ops/lora.h"
#include "lib/engine/options/part_options.h"

namespace nvllm {

OptionList<LoraOptions> lora_options() {
    OptionList<LoraOptions> list("engine");
    list.group("Adapters");
    list.add("enable-lora", &LoraOptions::enabled,
             "Requests may name LoRA adapters, also such as are loaded later.");
    list.add("lora-modules", &LoraOptions::modules,
             "LoRA adapters in PEFT's format that requests may name.", value_name("NAME=FOLDER"),
             default_text("none"), takes_several());
    list.add("lora-dir", &LoraOptions::folder,
             "Folder whose subfolders are adapters, called like them; nvllm-serve watches it for "
             "new, changed and removed ones.",
             value_name("FOLDER"), default_text("none"));
    list.add("max-loras", &LoraOptions::max_loras, "Adapters in one step.", range(1, 1024),
             default_text("8"));
    list.add("max-lora-rank", &LoraOptions::max_rank, "The largest rank of an adapter.",
             range(1, static_cast<int32_t>(ops::kMaxLoraRank)),
             default_text("the largest of those named, at least 16"));
    list.add("max-cpu-loras", &LoraOptions::max_cpu_loras, "Adapters in host memory.",
             range(1, 65536), default_text("4 x --max-loras"));
    return list;
}

}  // namespace nvllm
