// Where the tensors of a model come from: a checkpoint, random numbers, or nowhere (meta tensors).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/context.h"
#include "kernels/host/thread_pool.h"
#include "lib/checkpoint/quantization_config.h"
#include "lib/model/model_part.h"
#include "lib/model/weights/shard.h"
#include "lib/tensor/tensor.h"
#include "lib/tensor/upload.h"

namespace nvllm {

class LoraTargets;
class RepackCache;

// What a tensor is for; decides which element types are allowed and what a random one looks like.
enum class WeightRole : uint8_t { matrix, norm, bias };

class LinearPart;
struct LinearSpec;

// Rows of one matrix of a stored stack: of [matrices, out, in], or of [matrices, in, out] turned.
// Further axes of a stack count as one, `in`. Of a stack of vectors [vectors, out]: values of one.
struct StoredPart {
    std::string whole;
    int64_t matrix = 0;
    int64_t first = 0;  // of the outputs
    int64_t count = 0;
    bool is_turned = false;
    int64_t num_matrices = 0;  // that the stack must have
    int64_t num_outputs = 0;   // of each
    int64_t step = 1;          // from one of the outputs to the next

    // Whether its bytes lie apart in the file, so that reading it makes a copy.
    bool is_scattered() const { return is_turned || step != 1; }
};

// Replaces linear layers while a model is built. The quantizer uses it to record each layer's input
// and to change its weights.
class LinearHook {
  public:
    virtual ~LinearHook() = default;
    // The part that the model multiplies with instead of `part`, which is names[index] of matrices
    // over one input.
    virtual std::unique_ptr<LinearPart> wrap(std::span<const LinearSpec> names, size_t index,
                                             std::unique_ptr<LinearPart> part) = 0;
    // A part to wrap instead of the stored one, whose tensors then count as read; null: the stored
    // one is loaded.
    virtual std::unique_ptr<LinearPart> defer(const LinearSpec&);
    // Told of each name that a part of a stored tensor gets, before a linear of it is loaded.
    virtual void name_part(const std::string&, const StoredPart&) {}
};

// What a source holds. Nothing is read.
class StoredTensors {
  public:
    virtual ~StoredTensors() = default;

    virtual bool has(const std::string& name) const = 0;
    // Of all tensors, ascending; empty for a source that has every tensor a model asks for.
    virtual std::vector<std::string_view> names() const { return {}; }
    virtual bool has_shape(const std::string&, std::initializer_list<int64_t>) const {
        return false;
    }
    // Values of the tensor of this name in a file; 0: there is none.
    virtual int64_t count_of(const std::string&) const { return 0; }
    // Whether tensors lie in files, which may keep some linears dense.
    virtual bool keeps_files() const { return false; }
    virtual bool keeps_dense(const std::string&) const { return false; }
    // Whether a matrix of this linear is stored, dense or quantized.
    virtual bool has_matrix(const std::string&) const { return false; }
    // Whether both tensors are there, of one type and shape and with the same bytes.
    virtual bool are_equal(const std::string&, const std::string&) const { return false; }
    // Where a tensor lies, for messages.
    virtual std::string place_of(const std::string&) const { return "weights"; }
    // False when tensors have a type and a shape but nothing behind their addresses.
    virtual bool has_values() const { return true; }
};

// Used by one thread while a model is made.
class WeightSource : public StoredTensors {
  public:
    // `device`: where the model is to compute.
    WeightSource(DType compute_type, ThreadPool& threads, const ComputeDevice& device = {})
        : compute_type_(compute_type),
          threads_(threads),
          uploader_(device, threads),
          device_(device) {}
    WeightSource(const WeightSource&) = delete;
    WeightSource& operator=(const WeightSource&) = delete;

    // The tensor in its stored type: float32, bfloat16 or float16, aligned to its elements. Throws
    // bad_data that names the tensor, what was expected and what was found.
    Tensor read(const std::string& name, std::initializer_list<int64_t> shape, WeightRole role) {
        return read_slice(name, shape, role, {});
    }
    // A rank's slice of it, of which `shape` is the shape; no other bytes of a file are read. The
    // whole tensor where it has this shape already.
    virtual Tensor read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                              WeightRole role, const TensorSlice& slice) = 0;
    // Tensors of quantized linears, or slices of them: of this shape, or of this many elements in
    // any shape, in one of these types. Throw bad_data as read() does. REQUIRES: keeps_files().
    virtual Tensor read_stored(const std::string& name, std::initializer_list<int64_t> shape,
                               std::initializer_list<DType> types, const TensorSlice& slice);
    virtual Tensor read_stored_flat(const std::string& name, int64_t count,
                                    std::initializer_list<DType> types, const TensorSlice& slice);
    // Frees memory that holds file pages of what the two above returned, after the caller copied
    // it. A further read of those tensors reads the files again.
    virtual void release_stored() {}
    // Gives a matrix [out, in], or a vector [out], that lies in a larger tensor a name to be read
    // by. Reading it throws bad_data where there is no such tensor or it has another shape.
    virtual void name_part(const std::string& name, const StoredPart& part);
    // What of the model is read.
    const ModelPart& part() const { return part_; }
    void set_part(const ModelPart& part) { part_ = part; }
    // A module that every rank has all of: why it is not cut.
    void note_replicated(const std::string& why) { replicated_.push_back(why); }
    std::span<const std::string> replicated_modules() const { return replicated_; }
    // How linears are quantized; null: all are dense.
    const QuantizationConfig* quantization() const { return quantization_.get(); }
    void set_quantization(std::shared_ptr<const QuantizationConfig> quantization) {
        quantization_ = std::move(quantization);
    }

    // Where linears that adapters may change are listed; null: nowhere.
    LoraTargets* lora_targets() const { return lora_targets_; }
    void set_lora_targets(LoraTargets* targets) { lora_targets_ = targets; }

    // Where packed linears are stored from one start to the next; null: nowhere.
    RepackCache* repack_cache() const { return repack_cache_; }
    void set_repack_cache(RepackCache* cache) { repack_cache_ = cache; }
    // The tensors of this linear are not needed: they count as read.
    virtual void pass_over(const std::string&) {}

    // Quantized and sparse linears that were loaded, by how they are multiplied.
    struct QuantizedLinears {
        struct Counts {
            int64_t native = 0;
            int64_t widened = 0;
        };
        int64_t native = 0;                       // multiplied as they are
        int64_t widened = 0;                      // dequantized to the compute type
        std::map<std::string, Counts> by_scheme;  // the same of each, by scheme_name() or "2:4"

        void count(const std::string& scheme, bool is_native);
    };
    QuantizedLinears& quantized_linears() { return quantized_linears_; }
    const QuantizedLinears& quantized_linears() const { return quantized_linears_; }

    // The tensor where the model computes: itself on the CPU, else a copy in memory of the device;
    // without values its layout there.
    Tensor placed(const Tensor& tensor);
    // Memory of the compute type where the model computes, to be filled by read_matrix_into(); only
    // the layout where the source has no values.
    Tensor allocate_placed(std::initializer_list<int64_t> shape) const;
    // A matrix, or a slice of one, in the compute type where the model computes: in memory of its
    // own, or in memory of allocate_placed() on a device other than the CPU. Throw as read() does.
    virtual Tensor read_placed_matrix(const std::string& name, std::initializer_list<int64_t> shape,
                                      const TensorSlice& slice);
    virtual void read_matrix_into(const std::string& name, std::initializer_list<int64_t> shape,
                                  const TensorSlice& slice, const TensorView& to);
    // read(), placed(): vectors, in the type they are stored in.
    Tensor read_placed(const std::string& name, std::initializer_list<int64_t> shape,
                       WeightRole role) {
        return placed(read(name, shape, role));
    }
    // Waits until all placed tensors are in memory of the device.
    void finish() { uploader_.finish(); }
    // Names of tensors that were not read, ascending.
    virtual std::vector<std::string> unread() const = 0;

    // Null when linears stay as they are loaded. Must outlive the source.
    void set_hook(LinearHook* hook) { hook_ = hook; }
    LinearHook* hook() const { return hook_; }

    // The type of the operands of matmuls, from --dtype.
    DType compute_type() const { return compute_type_; }
    ThreadPool& threads() const { return threads_; }
    const ComputeDevice& device() const { return device_; }
    // For ops on a device, with the source's threads. The arena is that device's.
    Context make_context(const ComputeDevice& where, ScratchArena& scratch) const;

  private:
    DType compute_type_;
    ThreadPool& threads_;
    Uploader uploader_;
    ComputeDevice device_;
    LinearHook* hook_ = nullptr;
    ModelPart part_;
    std::vector<std::string> replicated_;
    std::shared_ptr<const QuantizationConfig> quantization_;
    QuantizedLinears quantized_linears_;
    RepackCache* repack_cache_ = nullptr;
    LoraTargets* lora_targets_ = nullptr;
};

// What is loaded while it lives cannot be changed by adapters: its rows are not those of the batch.
class WithoutLoraTargets {
  public:
    explicit WithoutLoraTargets(WeightSource& source)
        : source_(source), targets_(source.lora_targets()) {
        source.set_lora_targets(nullptr);
    }
    ~WithoutLoraTargets() { source_.set_lora_targets(targets_); }
    WithoutLoraTargets(const WithoutLoraTargets&) = delete;
    WithoutLoraTargets& operator=(const WithoutLoraTargets&) = delete;

  private:
    WeightSource& source_;
    LoraTargets* targets_;
};

// A matrix as matmuls take it, in host memory: the tensor itself when it has the compute type, or
// when that is float32 on the CPU (any type is upcast exactly), else a converted copy.
Tensor as_product_matrix(const WeightSource& source, const Tensor& stored);

// A tensor of any float type in another, in host memory.
Tensor as_type(const WeightSource& source, const Tensor& stored, DType wanted);
inline Tensor as_float32(const WeightSource& source, const Tensor& stored) {
    return as_type(source, stored, DType::f32);
}

// The one number of a tensor [1], above 0 and finite; `absent` where there is no such tensor or
// none has values. Throws bad_data that names the tensor.
float load_scalar(WeightSource& source, const std::string& name, float absent);

// A copy of a matrix with rows and columns exchanged; without values where the source has none.
Tensor transposed(const Tensor& matrix, ThreadPool& threads);
Tensor transposed(const WeightSource& source, const Tensor& matrix);

}  // namespace nvllm
