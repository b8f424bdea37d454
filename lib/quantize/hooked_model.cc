// Linears that tell what they are given before they multiply.
#include "lib/quantize/hooked_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/registry.h"
#include "lib/model/weights/dense.h"
#include "lib/quantize/deferred_part.h"
#include "lib/system/memory_info.h"

namespace nvllm::quantize {
namespace {

// What all parts of one model share.
struct Hooked {
    LinearObserver* observer = nullptr;
};

class ObservedPart final : public LinearPart {
  public:
    ObservedPart(const Hooked& listening, size_t site, bool is_first,
                 std::unique_ptr<LinearPart> stored)
        : listening_(listening), site_(site), is_first_(is_first), stored_(std::move(stored)) {}

    int64_t in() const override { return stored_->in(); }
    int64_t out() const override { return stored_->out(); }
    size_t bytes() const override { return stored_->bytes(); }

    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        if (is_first_ && listening_.observer != nullptr && !context.is_dry_run()) {
            listening_.observer->see(site_, context, x);
        }
        (replaced_ ? replaced_ : stored_)->apply(context, x, output, y);
    }

    void replace(std::unique_ptr<LinearPart> part) { replaced_ = std::move(part); }

  private:
    const Hooked& listening_;
    size_t site_;
    bool is_first_;
    std::unique_ptr<LinearPart> stored_;
    std::unique_ptr<LinearPart> replaced_;
};

// A stored tensor in float32.
Tensor widened(const Tensor& stored, ThreadPool& threads) {
    const ConstTensorView& view = stored.view();
    Tensor aligned = stored;
    if (reinterpret_cast<uintptr_t>(view.data) % dtype_bytes(view.dtype) != 0) {
        aligned = Tensor::allocate(view, {});
        std::memcpy(aligned.mutable_view().data, view.data, stored.bytes());
    }
    return converted(aligned.view(), DType::f32, threads);
}

// What is dequantized are linears.
void check_tables(const Checkpoint& checkpoint) {
    for (const std::string_view name : checkpoint.names()) {
        if (!name.ends_with("embed_tokens.weight_packed") &&
            !name.ends_with("embed_tokens.weight_scale")) {
            continue;
        }
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {}: the source's embedding is quantized; start from a model "
                                "whose embedding is dense",
                                checkpoint.file_of(name), name));
    }
}

}  // namespace

Tensor converted(const ConstTensorView& values, DType type, ThreadPool& threads) {
    ViewLayout layout = values;
    layout.dtype = type;
    Tensor result = Tensor::allocate(layout, {});
    ScratchArena scratch;
    Context context;
    context.scratch = &scratch;
    context.threads = &threads;
    ops::convert(context, values, result.mutable_view());
    return result;
}

class HookedModel::Hook final : public LinearHook {
  public:
    explicit Hook(CheckpointSource& source) : source_(source) {}

    // What is stored quantized multiplies as the dense model that it stands for. What would be
    // copied is so for the time of its block.
    std::unique_ptr<LinearPart> defer(const LinearSpec& name) override {
        if (is_dense(source_, name) && !source_.parts().is_copied(name.weight())) return nullptr;
        auto part = std::make_unique<DeferredPart>(
            name, source_.compute_type(), [this, name] { return dequantized_linear(name); });
        deferred_.push_back(part.get());
        return part;
    }

    void name_part(const std::string& name, const StoredPart& part) override {
        source_.name_part(name, part);
    }

    LinearWeight dequantized_linear(const LinearSpec& name) {
        std::vector<std::unique_ptr<LinearPart>> parts;
        parts.push_back(
            make_dense_part(as_type(source_, read_values(source_, name), source_.compute_type()),
                            read_bias(source_, name), source_.compute_type()));
        source_.release_stored();
        return LinearWeight(std::move(parts));
    }

    void release(std::optional<int32_t> block) {
        for (DeferredPart* const part : deferred_) {
            if (block_of_name(part->name().name) == block) part->release();
        }
    }

    std::unique_ptr<LinearPart> wrap(std::span<const LinearSpec> names, size_t index,
                                     std::unique_ptr<LinearPart> part) override {
        if (index == 0) ++num_sites_;
        auto observed =
            std::make_unique<ObservedPart>(listening_, num_sites_ - 1, index == 0, std::move(part));
        linears_.push_back({names[index], num_sites_ - 1, block_of_name(names[index].name)});
        parts_.push_back(observed.get());
        return observed;
    }

    Hooked listening_;
    std::vector<ObservedLinear> linears_;
    std::vector<ObservedPart*> parts_;  // the model's own
    CheckpointSource& source_;
    std::vector<DeferredPart*> deferred_;  // alike
    size_t num_sites_ = 0;
};

std::optional<int32_t> block_of_name(std::string_view name) {
    for (size_t begin = 0; begin < name.size();) {
        const size_t dot = std::min(name.find('.', begin), name.size());
        const std::string_view part = name.substr(begin, dot - begin);
        int32_t number = 0;
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
        if (!part.empty() && error == std::errc() && end == part.data() + part.size()) {
            return number;
        }
        begin = dot + 1;
    }
    return std::nullopt;
}

HookedModel::HookedModel(const std::filesystem::path& directory, ThreadPool& threads,
                         std::optional<DType> compute_type, LoraTargets* lora_targets)
    : threads_(threads) {
    const ModelConfig config = read_model_config(directory);
    if (config.encoder || !config.generates) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} predicts no tokens; only models that do can be quantized",
                                directory.string(), config.architecture));
    }
    checkpoint_ = std::make_shared<const Checkpoint>(Checkpoint::open(directory));
    compute_type_ = compute_type.value_or(config.dtype == DType::bf16 ? DType::bf16 : DType::f32);
    source_ = std::make_unique<CheckpointSource>(*checkpoint_, compute_type_, threads);
    if (auto quantization = read_quantization_config(directory)) {
        source_->set_quantization(
            std::make_shared<const QuantizationConfig>(*std::move(quantization)));
    }
    hook_ = std::make_unique<Hook>(*source_);
    ModelLoadOptions options;
    options.directory = directory;
    options.dtype = compute_type_;
    options.threads = &threads;
    options.prefetch = false;
    options.checkpoint = checkpoint_;
    options.hook = hook_.get();
    options.lora_targets = lora_targets;
    check_tables(*checkpoint_);
    model_ = load_model(options);
}

HookedModel::~HookedModel() = default;

const std::vector<ObservedLinear>& HookedModel::linears() const { return hook_->linears_; }

std::vector<size_t> HookedModel::linears_of(std::optional<int32_t> block) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < linears().size(); ++i) {
        if (linears()[i].block == block) found.push_back(i);
    }
    return found;
}

bool HookedModel::is_stored_otherwise(size_t linear) const {
    const LinearSpec& name = linears()[linear].name;
    return name.tied_to.empty() && !is_dense(*source_, name);
}

DType HookedModel::dense_type(size_t linear) const {
    if (is_stored_otherwise(linear)) return model_->config().dtype;
    return stored_type(linears()[linear].name.weight());
}

bool HookedModel::is_stacked(size_t linear) const {
    return !source_->parts().of(linears()[linear].name.name).empty();
}

const StoredPart* HookedModel::stored_part(const std::string& name) const {
    return source_->parts().find(name);
}

DType HookedModel::stored_type(const std::string& name) const {
    const StoredPart* const part = source_->parts().find(name);
    return checkpoint_->find(part == nullptr ? name : part->whole)->dtype;
}

std::vector<std::string> HookedModel::stored_names(size_t linear) const {
    const LinearSpec& name = linears()[linear].name;
    std::vector<std::string> names;
    for (const StoredPart& part : source_->parts().of(name.name)) {
        if (checkpoint_->find(part.whole)) names.push_back(part.whole);
    }
    if (!names.empty()) return names;
    if (!is_stored_otherwise(linear)) return {name.weight()};
    for (const std::string_view tensor : checkpoint_->names()) {
        const bool is_its_own =
            tensor.starts_with(name.name) && tensor.substr(name.name.size()).starts_with('.');
        if (is_its_own && !tensor.ends_with(".bias")) names.emplace_back(tensor);
    }
    return names;
}

uint64_t HookedModel::stored_bytes(size_t linear) const {
    const auto bytes_of = [&](const std::string& name) {
        const auto view = checkpoint_->find(name);
        return view ? static_cast<uint64_t>(view->numel()) * dtype_bytes(view->dtype) : 0;
    };
    uint64_t bytes = 0;
    const std::vector<StoredPart> parts = source_->parts().of(linears()[linear].name.name);
    for (const StoredPart& part : parts) {
        bytes += bytes_of(part.whole) * static_cast<uint64_t>(part.count) /
                 static_cast<uint64_t>(part.num_matrices * part.num_outputs);
    }
    if (!parts.empty()) return bytes;
    for (const std::string& name : stored_names(linear)) bytes += bytes_of(name);
    return bytes;
}

void HookedModel::set_observer(LinearObserver* observer) { hook_->listening_.observer = observer; }

Tensor HookedModel::weight(size_t linear) const {
    const LinearSpec& name = linears()[linear].name;
    if (is_stored_otherwise(linear)) return read_values(*source_, name);
    const Tensor wide = matrix(name.weight());
    return name.order == MatrixOrder::out_in ? wide : transposed(wide, threads_);
}

Tensor HookedModel::matrix(const std::string& name) const {
    const auto stored = source_->tensor(name);
    NVLLM_CHECK(stored, "a matrix that is there: " + name);
    return widened(*stored, threads_);
}

std::optional<std::vector<float>> HookedModel::vector(const std::string& name) const {
    const auto stored = source_->tensor(name);
    if (!stored) return std::nullopt;
    const Tensor values = widened(*stored, threads_);
    const float* const begin = values.view().as<float>();
    return std::vector<float>(begin, begin + values.view().numel());
}

void HookedModel::replace(size_t linear, const Tensor& weight) {
    const LinearSpec& name = linears()[linear].name;
    Tensor bias;
    if (name.bias) bias = *source_->tensor(name.name + ".bias");
    Tensor rounded = weight;
    if (compute_type_ != DType::f32) rounded = converted(weight.view(), compute_type_, threads_);
    hook_->parts_[linear]->replace(
        make_dense_part(std::move(rounded), std::move(bias), compute_type_));
}

void HookedModel::restore(size_t linear) { hook_->parts_[linear]->replace(nullptr); }

void HookedModel::release_block(int32_t block) const {
    hook_->release(block);
    source_->release_stored();
    for (const std::string_view name : checkpoint_->names()) {
        if (block_of_name(name) != block) continue;
        const ConstTensorView view = *checkpoint_->find(name);
        release_mapped_pages(
            {view.as<std::byte>(), static_cast<size_t>(view.numel()) * dtype_bytes(view.dtype)});
    }
}

}  // namespace nvllm::quantize
