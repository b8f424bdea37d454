// Where the tensors of a model come from: a checkpoint, random numbers, or nowhere (an outline).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/thread_pool.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

// What a tensor is for; decides which element types are allowed and what a random one looks like.
enum class WeightRole : uint8_t { matrix, norm, bias };

// Used by one thread while a model is made.
class WeightSource {
  public:
    WeightSource(DType product_type, ThreadPool& threads)
        : product_type_(product_type), threads_(threads) {}
    virtual ~WeightSource() = default;
    WeightSource(const WeightSource&) = delete;
    WeightSource& operator=(const WeightSource&) = delete;

    virtual bool has(const std::string& name) const = 0;
    // The tensor in its stored type: float32, bfloat16 or float16, aligned to its elements. Throws
    // bad_data that names the tensor, what was expected and what was found.
    virtual Tensor read(const std::string& name, std::initializer_list<int64_t> shape,
                        WeightRole role) = 0;
    // Names that nobody read, ascending.
    virtual std::vector<std::string> unread() const = 0;
    // False when tensors have a type and a shape but nothing behind their addresses.
    virtual bool has_values() const { return true; }

    // The type that factors of a product have, from --dtype.
    DType product_type() const { return product_type_; }
    ThreadPool& threads() const { return threads_; }

  private:
    DType product_type_;
    ThreadPool& threads_;
};

// A matrix as products want it: the tensor itself when its type is the product type or products are
// float32 (any type widens exactly), else a converted copy.
Tensor as_product_matrix(const WeightSource& source, const Tensor& stored);

// A copy of a matrix with rows and columns exchanged.
Tensor transposed(const WeightSource& source, const Tensor& matrix);

}  // namespace nvllm
