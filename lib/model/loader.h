// From a model directory to a model that can run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device.h"
#include "kernels/host/thread_pool.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/model/model.h"
#include "lib/model/model_part.h"
#include "lib/model/weights/meta_weight_source.h"

namespace nvllm {

enum class LoadFormat : uint8_t {
    automatic,  // safetensors
    safetensors,
    dummy,  // random weights; only config.json is read
};

struct ModelLoadOptions {
    std::filesystem::path directory;
    // Of the operands of matmuls; empty: as the config says.
    std::optional<DType> dtype = std::nullopt;
    bool refuses_quantized = false;  // --quantization none
    LoadFormat load_format = LoadFormat::automatic;
    uint64_t seed = 0;          // of dummy weights
    int64_t max_model_len = 0;  // longest sequence that will run; 0: the model's own limit
    ThreadPool* threads = nullptr;
    int num_threads = 0;       // of metadata made without a pool; 0: one for each physical core
    bool prefetch = true;      // ask the system to read mapped weights ahead
    DeviceChoice device = {};  // where the model computes
    std::filesystem::path repack_cache = {};  // folder for packed linears; empty: none
    // The directory's weights, when they were opened before; null: opened here.
    std::shared_ptr<const Checkpoint> checkpoint = nullptr;
    // What of the model is loaded, and the cache groups of the whole one where it is a stage.
    ModelPart part = {};
    std::vector<CacheLayout> groups = {};
    // Of a checkpoint's linears; must outlive load_model(), and the model where it says so.
    LinearHook* hook = nullptr;
    // Filled with the linears that adapters may change; null: none may.
    LoraTargets* lora_targets = nullptr;
};

// The compute type: the asked one, else the config's.
DType resolve_dtype(const ModelConfig& config, std::optional<DType> asked);

// The type of cached keys and values where no option names one: float8 where the checkpoint's
// kv_cache_scheme says so, else the compute type. `quantization` may be null.
DType default_kv_type(const QuantizationConfig* quantization, DType compute_type);

// The type of activations where a model of this compute type computes.
DType activation_type(const ComputeDevice& device, DType compute_type);

// The model with all its weights checked. Throws not_found or bad_data.
// REQUIRES: options.threads; the model keeps no reference to it. `read_bytes`: set to what of the
// files was read.
std::unique_ptr<Model> load_model(const ModelLoadOptions& options, uint64_t* read_bytes = nullptr);

// What is known of a model before any weight is read.
struct ModelMetadata {
    ModelConfig config;
    DType compute_type = DType::f32;
    DType kv_dtype = DType::f32;     // default_kv_type()
    DType activations = DType::f32;  // activation_type()
    std::vector<CacheLayout> kv_groups;
    size_t weight_bytes = 0;
    // Whose headers were read; null for dummy weights and for a directory without weights, of which
    // config.json alone is read.
    std::shared_ptr<const Checkpoint> checkpoint;
    // Without values, for dry runs as step_scratch_bytes() makes them, on the device with the
    // threads.
    std::shared_ptr<Model> model;
    ComputeDevice device;
    int num_threads = 1;
    std::shared_ptr<const QuantizationConfig> quantization;  // null: dense weights
    WeightSource::QuantizedLinears quantized_linears;        // how they will run here
    std::string weights_note;  // modules that are stored and not used; empty: none
    std::vector<std::string> replicated_modules;  // that each rank has all of, and why
};

// Reads config.json and the headers of the weights, whose names and shapes are checked as
// load_model() does. Throws not_found or bad_data.
ModelMetadata model_metadata(const ModelLoadOptions& options);

// How the linears of the directory's model would run on the CPU if they were quantized so. Only
// config.json is read. Throws not_found or bad_data.
WeightSource::QuantizedLinears meta_quantized(const std::filesystem::path& directory,
                                              const QuantizationConfig& quantization);

// The tensors that a model of this config consists of, in the config's own type. Throws bad_data
// when no family makes such a model.
std::vector<MetaTensor> meta_tensors(const ModelConfig& config);

}  // namespace nvllm
