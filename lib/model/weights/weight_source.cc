// Copies of stored matrices in another type or order, made once at load on all threads.
#include "lib/model/weights/weight_source.h"

#include <algorithm>

#include "kernels/context.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/weights/float_type.h"
#include "lib/model/weights/outline_source.h"

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

}  // namespace

Tensor as_product_matrix(const WeightSource& source, const Tensor& stored) {
    const DType wanted = source.product_type();
    const ConstTensorView& view = stored.view();
    if (wanted == DType::f32 || view.dtype == wanted) return stored;
    if (!source.has_values()) return outline_tensor(wanted, {view.dim(0), view.dim(1)});
    Tensor converted = Tensor::allocate(wanted, {view.dim(0), view.dim(1)});
    ScratchArena scratch;
    Context context;
    context.scratch = &scratch;
    context.threads = &source.threads();
    ops::convert(context, view, converted.mutable_view());
    return converted;
}

Tensor transposed(const WeightSource& source, const Tensor& matrix) {
    const ConstTensorView& in = matrix.view();
    if (!source.has_values()) return outline_tensor(in.dtype, {in.dim(1), in.dim(0)});
    Tensor result = Tensor::allocate(in.dtype, {in.dim(1), in.dim(0)});
    const TensorView out = result.mutable_view();
    with_float_type(in.dtype, [&](auto zero) {
        source.threads().parallel_for(out.dim(0), kTile, [&](int64_t begin, int64_t end, int) {
            transpose_rows<decltype(zero)>(in, out, begin, end);
        });
    });
    return result;
}

}  // namespace nvllm
