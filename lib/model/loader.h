// From a model directory to a model that can run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/thread_pool.h"
#include "lib/model/model.h"

namespace nvllm {

enum class LoadFormat : uint8_t {
    automatic,  // safetensors
    safetensors,
    dummy,  // random weights; only config.json is read
};

struct ModelLoadOptions {
    std::filesystem::path directory;
    // Of products and of the KV cache; empty: as the config says.
    std::optional<DType> dtype = std::nullopt;
    LoadFormat load_format = LoadFormat::automatic;
    uint64_t seed = 0;          // of dummy weights
    int64_t max_model_len = 0;  // longest sequence that will run; 0: the model's own limit
    ThreadPool* threads = nullptr;
    bool prefetch = true;  // ask the system to read mapped weights ahead
};

// The type of products and of the KV cache: the asked one, else the config's.
DType resolve_dtype(const ModelConfig& config, std::optional<DType> asked);

// The model with all its weights checked. Throws not_found or bad_data.
// REQUIRES: options.threads; the model keeps no reference to it.
std::unique_ptr<Model> load_model(const ModelLoadOptions& options);

// What is known of a model before any weight is read.
struct ModelOutline {
    ModelConfig config;
    DType product_type = DType::f32;  // of products and of the KV cache
    std::vector<KvGroup> kv_groups;
    size_t weight_bytes = 0;
    // As Model::scratch_bytes.
    std::function<size_t(int64_t tokens, int64_t rows)> scratch;
};

// Reads config.json only. Without options.threads, scratch is counted for all usable cores.
ModelOutline outline_model(const ModelLoadOptions& options);

}  // namespace nvllm
