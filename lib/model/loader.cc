// Choosing the family and the source of weights; what is left over at the end is a fault.
#include "lib/model/loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu_placement.h"
#include "kernels/error.h"
#include "lib/model/families/bert.h"
#include "lib/model/registry.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/outline_source.h"

namespace nvllm {
namespace {

// The parts of a model of text and pictures that only pictures need.
bool is_vision(const std::string& name) {
    return name.find("vision_tower.") != std::string::npos ||
           name.find("multi_modal_projector.") != std::string::npos;
}

// Tensors that old exporters saved though they follow from the config, or that a tied model does
// not use.
bool may_be_left_over(const std::string& name, const ModelConfig& config) {
    return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
           name.ends_with(".attn.masked_bias") ||
           (config.tie_word_embeddings && name.ends_with("lm_head.weight")) ||
           (config.architecture == "Gemma3ForConditionalGeneration" && is_vision(name)) ||
           (config.encoder && is_bert_task_tensor(name)) ||
           (!config.generates && name == "lm_head.weight");
}

void check_all_read(const CheckpointSource& source, const ModelConfig& config) {
    std::vector<std::string> left = source.unread();
    std::erase_if(left, [&](const std::string& name) { return may_be_left_over(name, config); });
    if (left.empty()) return;
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: tensor {}{} has no place in a {} of this config.json; is the "
                            "checkpoint quantized, an adapter, or of another model?",
                            source.checkpoint().file_of(left.front()), left.front(),
                            left.size() > 1 ? fmt::format(" (and {} more)", left.size() - 1) : "",
                            config.architecture));
}

// The config, and the row of a family that can make such a model.
struct Chosen {
    ModelConfig config;
    const FamilyRow* family;
};

Chosen choose_family(const ModelLoadOptions& options) {
    const std::filesystem::path& directory = options.directory;
    Chosen chosen{read_model_config(directory), nullptr};
    chosen.family = &family_of(chosen.config);
    if (chosen.config.quantized && options.refuses_quantized) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: its weights are quantized (quantization_config), and "
                                "--quantization none refuses such checkpoints",
                                (directory / "config.json").string()));
    }
    if (chosen.config.quantized) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: its weights are quantized (quantization_config); only float32, "
                        "bfloat16 and float16 weights are supported",
                        (directory / "config.json").string()));
    }
    return chosen;
}

ModelSettings settings_for(const ModelLoadOptions& options, const ModelConfig& config,
                           int num_threads) {
    return {options.max_model_len > 0 ? options.max_model_len : config.max_positions, num_threads};
}

int threads_of_outline(const ModelLoadOptions& options) {
    if (options.threads != nullptr) return options.threads->num_threads();
    return options.num_threads > 0 ? options.num_threads : default_num_threads();
}

}  // namespace

DType resolve_dtype(const ModelConfig& config, std::optional<DType> asked) {
    const DType dtype = asked.value_or(config.dtype);
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
        throw Error(ErrorKind::usage,
                    fmt::format("dtype {} is not supported; float32, bfloat16 and float16 are",
                                dtype_name(dtype)));
    }
    return dtype;
}

std::unique_ptr<Model> load_model(const ModelLoadOptions& options) {
    NVLLM_CHECK(options.threads != nullptr, "loading needs a thread pool");
    const auto [config, family] = choose_family(options);
    const DType dtype = resolve_dtype(config, options.dtype);
    const ModelSettings settings = settings_for(options, config, options.threads->num_threads());
    if (options.load_format == LoadFormat::dummy) {
        DummySource source(options.seed, dtype, *options.threads);
        return family->make(config, source, settings);
    }
    CheckpointSource source(
        options.checkpoint ? *options.checkpoint : Checkpoint::open(options.directory), dtype,
        *options.threads);
    if (options.prefetch) source.checkpoint().prefetch();
    std::unique_ptr<Model> model = family->make(config, source, settings);
    check_all_read(source, config);
    return model;
}

ModelOutline outline_model(const ModelLoadOptions& options) {
    const auto [config, family] = choose_family(options);
    const DType dtype = resolve_dtype(config, options.dtype);
    const ModelSettings settings = settings_for(options, config, threads_of_outline(options));
    const bool dummy = options.load_format == LoadFormat::dummy;
    ThreadPool no_threads(1);
    std::shared_ptr<const Checkpoint> checkpoint;
    std::shared_ptr<const Model> model;
    if (!dummy && Checkpoint::is_present(options.directory)) {
        checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(options.directory));
        CheckpointSource source(*checkpoint, dtype, no_threads, CheckpointUse::headers);
        model = family->make(config, source, settings);
        check_all_read(source, config);
    } else {
        // Dummy weights are made in the type of products.
        OutlineSource source(dummy ? dtype : config.dtype, dtype, no_threads);
        model = family->make(config, source, settings);
    }
    const auto scratch = [model](int64_t tokens, int64_t rows) {
        return model->scratch_bytes(tokens, rows);
    };
    return {config, dtype, model->kv_groups(), model->weight_bytes(), checkpoint, scratch};
}

std::vector<OutlinedTensor> outline_tensors(const ModelConfig& config) {
    ThreadPool no_threads(1);
    OutlineSource source(config.dtype, config.dtype, no_threads);
    family_of(config).make(config, source, {config.max_positions, 1});
    return source.tensors();
}

}  // namespace nvllm
