// Choosing the family and the source of weights; what is left over at the end is a fault.
#include "lib/model/loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"
#include "lib/model/registry.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/dummy_source.h"

namespace nvllm {
namespace {

// Tensors that old exporters saved though they follow from the config, or that a tied model does not use.
bool may_be_left_over(const std::string& name, const ModelConfig& config) {
    return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
           name.ends_with(".attn.masked_bias") ||
           (config.tie_word_embeddings && name == "lm_head.weight");
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

void check_supported(const ModelConfig& config, const std::filesystem::path& directory) {
    if (config.quantized) {
        throw Error(ErrorKind::unavailable,
                    fmt::format("{}: its weights are quantized (quantization_config); only float32, "
                                "bfloat16 and float16 weights are supported",
                                (directory / "config.json").string()));
    }
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
    const ModelConfig config = read_model_config(options.directory);
    const FamilyRow& family = family_of(config);
    check_supported(config, options.directory);
    const DType dtype = resolve_dtype(config, options.dtype);
    const ModelSettings settings{
        .max_model_len = options.max_model_len > 0 ? options.max_model_len : config.max_positions,
        .num_threads = options.threads->num_threads()};
    if (options.load_format == LoadFormat::dummy) {
        DummySource source(options.seed, dtype, *options.threads);
        return family.make(config, source, settings);
    }
    CheckpointSource source(Checkpoint::open(options.directory), dtype, *options.threads);
    if (options.prefetch) source.checkpoint().prefetch();
    std::unique_ptr<Model> model = family.make(config, source, settings);
    check_all_read(source, config);
    return model;
}

}  // namespace nvllm
