// What "-m" may be: a folder, or a name in the local Hugging Face cache. Never writes, never
// downloads.
#pragma once

#include <filesystem>
#include <string>

namespace nvllm {

// The folder that holds the model.
//
// `model` is a folder, or "org/name" or "name", optionally "@revision" (branch, tag, or a full or
// unambiguous short commit; main when absent). Names are looked up in `cache`. Throws not_found
// with every place that was searched and how the model gets there, or with what the cached snapshot
// lacks; bad_data when `model` is a file.
std::filesystem::path resolve_model_directory(const std::string& model,
                                              const std::filesystem::path& cache);
// The same with hub_cache_directory().
std::filesystem::path resolve_model_directory(const std::string& model);

// The same of an adapter: any folder that is there.
std::filesystem::path resolve_adapter_directory(const std::string& adapter);

// The cache folder that the environment chooses: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else
// HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub; empty when there
// is no home either.
std::filesystem::path hub_cache_directory();

}  // namespace nvllm
