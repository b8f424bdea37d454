// A model in which every linear can be listened to and given other weights, by the code that serves
// it.
//
// Weights stay in the mapped checkpoint and are read when a block is computed; release_block()
// gives the pages back. Used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/checkpoint.h"
#include "lib/model/loader.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/scheme.h"

namespace nvllm::quantize {

// Sees what linears are given. Linears that read the same input are one site.
class LinearObserver {
  public:
    virtual ~LinearObserver() = default;
    // x: float32 [tokens, in], as all linears of the site get it; valid during the call.
    virtual void see(size_t site, const Context& context, const ConstTensorView& x) = 0;
};

// One matrix of the model that a checkpoint stores under its own name.
struct ObservedLinear {
    LinearSpec name;
    size_t site = 0;
    std::optional<int32_t> block;  // empty: outside of blocks (the head)
};

class HookedModel {
  public:
    // Products in `compute_type`; without one in bfloat16 if the weights are, else in
    // float32. Linears that are stored quantized are dequantized block by block. Throws as
    // load_model(), and bad_data for a model that has no weights or is an encoder. `threads`
    // outlives the model. `lora_targets`: as ModelLoadOptions has them.
    HookedModel(const std::filesystem::path& directory, ThreadPool& threads,
                std::optional<DType> compute_type = std::nullopt,
                LoraTargets* lora_targets = nullptr);
    ~HookedModel();
    HookedModel(const HookedModel&) = delete;
    HookedModel& operator=(const HookedModel&) = delete;

    Model& model() const { return *model_; }
    const Checkpoint& checkpoint() const { return *checkpoint_; }
    ThreadPool& threads() const { return threads_; }
    DType compute_type() const { return compute_type_; }
    // In the order the model was made in: block by block.
    const std::vector<ObservedLinear>& linears() const;
    // Indices into linears() of a block's, or of those outside of blocks.
    std::vector<size_t> linears_of(std::optional<int32_t> block) const;

    // The observer from here on; null: none.
    void set_observer(LinearObserver* observer);
    // What the source's own quantization_config says; null: it is dense.
    const QuantizationConfig* quantization() const { return source_->quantization(); }
    // Whether the source stores the linear quantized, or without its zeros.
    bool is_stored_otherwise(size_t linear) const;
    // Whether the source has it only within a larger tensor: as an expert of a stack.
    bool is_stacked(size_t linear) const;
    // The type that the linear's matrix has where it is dense.
    DType dense_type(size_t linear) const;
    // Where a tensor of this name lies in a larger one; null: it does not.
    const StoredPart* stored_part(const std::string& name) const;
    // The tensors that the source keeps the linear in, but for a bias of its own, and their bytes:
    // of stacks the linear's share.
    std::vector<std::string> stored_names(size_t linear) const;
    uint64_t stored_bytes(size_t linear) const;
    // A copy of the linear's stored matrix: float32 [out, in], however it lies in the file.
    Tensor weight(size_t linear) const;
    // Of a tensor, or of the stack that has it. REQUIRES: it is there.
    DType stored_type(const std::string& name) const;
    // Any stored matrix in float32. REQUIRES: it is there.
    Tensor matrix(const std::string& name) const;
    // A stored vector as float32; empty when there is none of that name.
    std::optional<std::vector<float>> vector(const std::string& name) const;
    // The linear multiplies with this float32 [out, in], rounded to the type of products (and its
    // own bias) until restore().
    void replace(size_t linear, const Tensor& weight);
    void restore(size_t linear);
    // Gives back memory that holds the block's part of the checkpoint.
    void release_block(int32_t block) const;

  private:
    class Hook;

    ThreadPool& threads_;
    DType compute_type_ = DType::f32;
    std::shared_ptr<const Checkpoint> checkpoint_;
    std::unique_ptr<CheckpointSource> source_;  // of values, however they are stored
    std::unique_ptr<Hook> hook_;
    std::unique_ptr<Model> model_;
};

// The number of the block that a tensor or linear belongs to by its name
// ("model.layers.3.mlp.up_proj": 3); empty: none.
std::optional<int32_t> block_of_name(std::string_view name);

// The same values in another type.
Tensor converted(const ConstTensorView& values, DType type, ThreadPool& threads);

}  // namespace nvllm::quantize
