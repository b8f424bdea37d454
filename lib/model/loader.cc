// Choosing the family and the source of weights; what is left over at the end is a fault or
// a note.
#include "lib/model/loader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "kernels/error.h"
#include "kernels/host/cpu_placement.h"
#include "kernels/ops/open_backend.h"
#include "lib/base/log.h"
#include "lib/model/dense_modules.h"
#include "lib/model/registry.h"
#include "lib/model/stray_tensors.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/repack_cache.h"

namespace nvllm {
namespace {

// Of a quantized KV cache, in families that have no use for them.
bool is_kv_scale(const std::string& name) {
    return name.ends_with("attn.k_scale") || name.ends_with("attn.v_scale") ||
           name.ends_with("attn.q_scale");
}

// Tensors that old exporters saved though they follow from the config, or whose absence from the
// model says nothing new.
bool may_be_left_over(const std::string& name, const ModelConfig& config) {
    const FamilyRow& family = family_of(config);
    return name.ends_with(".rotary_emb.inv_freq") ||
           (family.may_ignore != nullptr && family.may_ignore(name, config)) ||
           (!config.generates && name == "lm_head.weight") || is_kv_scale(name);
}

// A note for the user on modules that are not used; empty: there are none. Throws bad_data when
// tensors are left over that would change what the model computes.
std::string check_all_read(const CheckpointSource& source, const ModelConfig& config) {
    std::vector<std::string> left = source.unread();
    std::erase_if(left, [&](const std::string& name) { return may_be_left_over(name, config); });
    const std::vector<std::string> read = source.read_names();
    const StrayTensors stray = find_stray_tensors(read, left);
    if (!stray.inside.empty()) {
        const std::string& first = stray.inside.front();
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {}{} has no place in a {} of this config.json; is the "
                                "checkpoint quantized, an adapter, or of another model?",
                                source.checkpoint().file_of(first), first,
                                stray.inside.size() > 1
                                    ? fmt::format(" (and {} more)", stray.inside.size() - 1)
                                    : "",
                                config.architecture));
    }
    // Of the other parts of a model the config has a note.
    if (stray.outside.empty() || config.is_multi_part) return {};
    return fmt::format("{}: not used: {}", source.checkpoint().file_of(stray.outside.front()),
                       describe_stray_modules(read, stray.outside));
}

// The config, and the row of a family that can make such a model.
struct ResolvedModel {
    ModelConfig config;
    const FamilyRow* family;
    std::shared_ptr<const QuantizationConfig> quantization;  // null: dense weights
};

std::shared_ptr<const QuantizationConfig> read_quantization(const ModelLoadOptions& options,
                                                            const ModelConfig& config) {
    std::optional<QuantizationConfig> found = read_quantization_config(options.directory);
    if (!found) return nullptr;
    if (options.refuses_quantized) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: its weights are quantized ({}), and --quantization none "
                                "refuses such checkpoints",
                                (options.directory / "config.json").string(),
                                config.quantized ? "quantization_config" : "quantize_config.json"));
    }
    return std::make_shared<const QuantizationConfig>(*std::move(found));
}

// Linears that are dequantized take more memory and time; said once.
void report_dequantized(const WeightSource& source) {
    const WeightSource::QuantizedLinears& linears = source.quantized_linears();
    if (linears.widened == 0) return;
    std::vector<std::string> schemes;
    for (const auto& [scheme, counts] : linears.by_scheme) {
        if (counts.widened > 0) schemes.push_back(scheme);
    }
    log_info(
        fmt::format("{} of {} quantized linears ({}) are widened to {}, as no kernel for this "
                    "device multiplies them as they are",
                    linears.widened, linears.widened + linears.native, fmt::join(schemes, "; "),
                    dtype_name(source.compute_type())));
}

ResolvedModel choose_family(const ModelLoadOptions& options) {
    const std::filesystem::path& directory = options.directory;
    ResolvedModel chosen{read_model_config(directory), nullptr, nullptr};
    chosen.family = &family_of(chosen.config);
    chosen.quantization = read_quantization(options, chosen.config);
    return chosen;
}

ModelSettings settings_for(const ModelLoadOptions& options, const ModelConfig& config) {
    return {options.max_model_len > 0 ? options.max_model_len : config.max_positions, options.part,
            options.groups};
}

int threads_of_metadata(const ModelLoadOptions& options) {
    if (options.threads != nullptr) return options.threads->num_threads();
    return options.num_threads > 0 ? options.num_threads : default_num_threads();
}

}  // namespace

DType activation_type(const ComputeDevice& device, DType compute_type) {
    return device.is_cpu() ? DType::f32 : compute_type;
}

DType default_kv_type(const QuantizationConfig* quantization, DType compute_type) {
    const bool is_float8 = quantization != nullptr && quantization->has_float8_cache();
    return is_float8 ? DType::f8_e4m3 : compute_type;
}

DType resolve_dtype(const ModelConfig& config, std::optional<DType> asked) {
    const DType dtype = asked.value_or(config.dtype);
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
        throw Error(ErrorKind::usage,
                    fmt::format("dtype {} is not supported; float32, bfloat16 and float16 are",
                                dtype_name(dtype)));
    }
    return dtype;
}

std::unique_ptr<Model> load_model(const ModelLoadOptions& options, uint64_t* read_bytes) {
    NVLLM_CHECK(options.threads != nullptr, "loading needs a thread pool");
    const auto [config, family, quantization] = choose_family(options);
    const DType dtype = resolve_dtype(config, options.dtype);
    const ComputeDevice device = open_device(options.device);
    const ModelSettings settings = settings_for(options, config);
    if (options.load_format == LoadFormat::dummy) {
        DummySource source(options.seed, dtype, *options.threads, device);
        source.set_quantization(quantization);
        source.set_part(options.part);
        source.set_lora_targets(options.lora_targets);
        std::unique_ptr<Model> model = family->make(config, source, settings);
        source.finish();
        return model;
    }
    CheckpointSource source(
        options.checkpoint ? *options.checkpoint : Checkpoint::open(options.directory), dtype,
        *options.threads, CheckpointUse::values, device);
    source.set_quantization(quantization);
    source.set_part(options.part);
    source.set_lora_targets(options.lora_targets);
    std::optional<RepackCache> cache;
    if (!options.repack_cache.empty() && quantization != nullptr && device.is_cpu()) {
        cache.emplace(options.repack_cache, source.checkpoint(), dtype);
        source.set_repack_cache(&*cache);
    }
    // Of files of which a rank has a part, the rest is left where it is.
    if (options.prefetch && options.part.is_whole()) source.checkpoint().prefetch();
    source.set_hook(options.hook);
    std::unique_ptr<Model> model = family->make(config, source, settings);
    if (options.part.is_whole()) check_all_read(source, config);
    source.finish();
    if (cache) cache->finish();
    report_dequantized(source);
    if (read_bytes != nullptr) *read_bytes = source.read_bytes();
    return model;
}

ModelMetadata model_metadata(const ModelLoadOptions& options) {
    const auto [config, family, quantization] = choose_family(options);
    const DType dtype = resolve_dtype(config, options.dtype);
    const ComputeDevice device = open_device(options.device);
    const ModelSettings settings = settings_for(options, config);
    const bool dummy = options.load_format == LoadFormat::dummy;
    ThreadPool no_threads(1);
    std::shared_ptr<const Checkpoint> checkpoint;
    std::shared_ptr<Model> model;
    std::string note;
    WeightSource::QuantizedLinears linears;
    std::vector<std::string> replicated;
    if (!dummy && Checkpoint::is_present(options.directory)) {
        checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(options.directory));
        CheckpointSource source(*checkpoint, dtype, no_threads, CheckpointUse::headers, device);
        source.set_quantization(quantization);
        source.set_part(options.part);
        source.set_lora_targets(options.lora_targets);
        model = family->make(config, source, settings);
        if (options.part.num_blocks == 0) note = check_all_read(source, config);
        linears = source.quantized_linears();
        replicated.assign(source.replicated_modules().begin(), source.replicated_modules().end());
    } else {
        // Dummy weights are made in the compute type.
        MetaWeightSource source(dummy ? dtype : config.dtype, dtype, no_threads, device);
        source.set_quantization(quantization);
        source.set_part(options.part);
        source.set_lora_targets(options.lora_targets);
        model = family->make(config, source, settings);
        linears = source.quantized_linears();
        replicated.assign(source.replicated_modules().begin(), source.replicated_modules().end());
    }
    return {config,
            dtype,
            default_kv_type(quantization.get(), dtype),
            activation_type(device, dtype),
            model->kv_groups(),
            model->weight_bytes() + dense_module_bytes(options, config.hidden_size),
            checkpoint,
            model,
            device,
            threads_of_metadata(options),
            quantization,
            linears,
            note,
            replicated};
}

WeightSource::QuantizedLinears meta_quantized(const std::filesystem::path& directory,
                                              const QuantizationConfig& quantization) {
    const ModelConfig config = read_model_config(directory);
    ThreadPool no_threads(1);
    MetaWeightSource source(config.dtype, resolve_dtype(config, std::nullopt), no_threads);
    source.set_quantization(std::make_shared<const QuantizationConfig>(quantization));
    family_of(config).make(config, source, {config.max_positions});
    return source.quantized_linears();
}

std::vector<MetaTensor> meta_tensors(const ModelConfig& config) {
    ThreadPool no_threads(1);
    MetaWeightSource source(config.dtype, config.dtype, no_threads);
    family_of(config).make(config, source, {config.max_positions});
    return source.tensors();
}

}  // namespace nvllm
