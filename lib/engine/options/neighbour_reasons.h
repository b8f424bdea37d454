// Why flags of other programs are refused or do nothing here, where several tables say the same.
#pragma once

namespace nvllm {

inline constexpr auto kNoPromptAdapters = "adapters of prompts are not supported; LoRA's are";
inline constexpr auto kDraftsAlike = "a draft model is computed where the model is";
inline constexpr auto kTextOnly = "requests with images, sound or video are refused";
inline constexpr auto kReadAsItIs =
    "config.json is read as it is: change it in a copy of the folder";

}  // namespace nvllm
