// A LoRA adapter as PEFT stores it: adapter_config.json and adapter_model.safetensors.
//
// Names begin with "base_model.model." and are otherwise those of the base model's modules. Nothing
// of a file is believed before it was compared with the config; whether the base model has such
// modules is checked where the adapter is bound to one.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/view.h"
#include "lib/checkpoint/adapter/adapter_config.h"

namespace nvllm {

// What an adapter adds to a linear: scale * B (A x). Views of the file.
struct AdapterModule {
    std::string name;      // "model.layers.0.self_attn.q_proj"
    ConstTensorView a;     // [rank, in]; of an embedding [rank, vocabulary]
    ConstTensorView b;     // [out, rank]
    ConstTensorView bias;  // [out], of B; or without data
    // [out]: what the rows of W + scale * B A are scaled to (DoRA); or without data.
    ConstTensorView magnitude;
    double scale = 1.0;
    bool is_embedding = false;
};

// Read, not mapped: who replaces a file while it is used ends nothing.
struct AdapterFile {
    std::filesystem::path path;  // of the weights
    AdapterConfig config;
    std::shared_ptr<const std::string> memory;  // of the views: the whole file
    uint64_t digest = 0;                        // of both files
    std::vector<AdapterModule> modules;         // by name
    // Instead of tensors of the base model, by their names there ("lm_head.weight",
    // "transformer.h.0.attn.c_attn.bias").
    std::map<std::string, ConstTensorView> replaced;

    size_t bytes() const { return memory->size(); }
};

// Throws not_found, io, and bad_data that names the file, the tensor, and what was expected.
AdapterFile read_adapter(const std::filesystem::path& folder);

}  // namespace nvllm
