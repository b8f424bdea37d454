// Copies of stored matrices in another type or order, made once at load on all threads.
#include "lib/model/weights/weight_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/context.h"
#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/weights/float_type.h"
#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {
namespace {

constexpr int64_t kTile = 32;

// Rows [begin, end) of `out`, in tiles that keep both sides in the cache.
template <typename T>
void transpose_rows(const ConstTensorView& in, const TensorView& out, int64_t begin, int64_t end) {
    const int64_t rows = out.dim(0);
    const int64_t columns = out.dim(1);
    const T* from = in.as<T>();
    T* to = out.as<T>();
    for (int64_t first = 0; first < columns; first += kTile) {
        const int64_t last = std::min(first + kTile, columns);
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t column = first; column < last; ++column) {
                to[row * columns + column] = from[column * rows + row];
            }
        }
    }
}

Tensor empty_like(const WeightSource& source, DType dtype, const ConstTensorView& view) {
    if (view.rank == 1) {
        return source.has_values() ? Tensor::allocate(dtype, {view.dim(0)})
                                   : meta_tensor(dtype, {view.dim(0)});
    }
    return source.has_values() ? Tensor::allocate(dtype, {view.dim(0), view.dim(1)})
                               : meta_tensor(dtype, {view.dim(0), view.dim(1)});
}

}  // namespace

void WeightSource::QuantizedLinears::count(const std::string& scheme, bool is_native) {
    Counts& counts = by_scheme[scheme];
    ++(is_native ? native : widened);
    ++(is_native ? counts.native : counts.widened);
}

std::unique_ptr<LinearPart> LinearHook::defer(const LinearSpec&) { return nullptr; }

Tensor WeightSource::read_stored(const std::string& name, std::initializer_list<int64_t>,
                                 std::initializer_list<DType>, const TensorSlice&) {
    NVLLM_CHECK(false, "no file holds " + name);
}

Tensor WeightSource::read_stored_flat(const std::string& name, int64_t,
                                      std::initializer_list<DType>, const TensorSlice&) {
    NVLLM_CHECK(false, "no file holds " + name);
}

void WeightSource::name_part(const std::string& name, const StoredPart&) {
    NVLLM_CHECK(false, "no file holds " + name);
}

Tensor WeightSource::placed(const Tensor& tensor) {
    if (has_values()) return uploader_.upload(tensor);
    ConstTensorView view = tensor.view();
    view.device = device_.id();
    return Tensor::borrow(view, std::make_shared<const Tensor>(tensor));
}

Tensor WeightSource::allocate_placed(std::initializer_list<int64_t> shape) const {
    return has_values() ? Tensor::allocate(compute_type_, shape, device_)
                        : meta_tensor(compute_type_, shape, device_.id());
}

Context WeightSource::make_context(const ComputeDevice& where, ScratchArena& scratch) const {
    Context context;
    context.device = where.id();
    context.backend = where.backend();
    context.scratch = &scratch;
    context.threads = &threads_;
    return context;
}

Tensor WeightSource::read_placed_matrix(const std::string& name,
                                        std::initializer_list<int64_t> shape,
                                        const TensorSlice& slice) {
    const Tensor stored = read_slice(name, shape, WeightRole::matrix, slice);
    return placed(as_product_matrix(*this, stored));
}

void WeightSource::read_matrix_into(const std::string& name, std::initializer_list<int64_t> shape,
                                    const TensorSlice& slice, const TensorView& to) {
    const Tensor stored = read_slice(name, shape, WeightRole::matrix, slice);
    const Tensor matrix = as_product_matrix(*this, stored);
    if (has_values()) uploader_.upload_into(matrix, to);
}

Tensor as_product_matrix(const WeightSource& source, const Tensor& stored) {
    const DType wanted = source.compute_type();
    const ConstTensorView& view = stored.view();
    const bool widens = wanted == DType::f32 && source.device().is_cpu();
    if (widens || view.dtype == wanted) return stored;
    return as_type(source, stored, wanted);
}

Tensor as_type(const WeightSource& source, const Tensor& stored, DType wanted) {
    const ConstTensorView& view = stored.view();
    if (view.dtype == wanted) return stored;
    Tensor converted = empty_like(source, wanted, view);
    if (!source.has_values()) return converted;
    ScratchArena scratch;
    ops::convert(source.make_context({}, scratch), view, converted.mutable_view());
    return converted;
}

float load_scalar(WeightSource& source, const std::string& name, float absent) {
    if (!source.has(name)) return absent;
    const Tensor tensor = source.read(name, {1}, WeightRole::bias);
    if (!source.has_values()) return absent;
    float value = 0.0f;
    with_float_type(tensor.view().dtype, [&](auto zero) {
        value = static_cast<float>(*tensor.view().as<decltype(zero)>());
    });
    if (value > 0.0f && std::isfinite(value)) return value;
    throw Error(ErrorKind::bad_data,
                fmt::format("tensor {} is {}, expected a number above 0", name, value));
}

Tensor transposed(const WeightSource& source, const Tensor& matrix) {
    const ConstTensorView& in = matrix.view();
    if (!source.has_values()) return meta_tensor(in.dtype, {in.dim(1), in.dim(0)});
    return transposed(matrix, source.threads());
}

Tensor transposed(const Tensor& matrix, ThreadPool& threads) {
    const ConstTensorView& in = matrix.view();
    Tensor result = Tensor::allocate(in.dtype, {in.dim(1), in.dim(0)});
    const TensorView out = result.mutable_view();
    with_float_type(in.dtype, [&](auto zero) {
        threads.parallel_for(out.dim(0), kTile, [&](int64_t begin, int64_t end, int) {
            transpose_rows<decltype(zero)>(in, out, begin, end);
        });
    });
    return result;
}

}  // namespace nvllm
