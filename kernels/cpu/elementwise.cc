// Element-wise ops on the CPU.
#include "kernels/ops/cpu_ops.h"

#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cpu/simd/rows.h"
#include "kernels/random.h"

namespace nvllm::cpu {
namespace {

// Elements [begin, end), begin a multiple of 4. T: anything of the values' size.
template <typename T>
void fill_range(uint64_t key, const T* table, uint64_t mask, T* out, int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) {
        const uint64_t bits = mixed_bits(key + static_cast<uint64_t>(i));
        out[i] = table[bits & mask];
        out[i + 1] = table[bits >> 16 & mask];
        out[i + 2] = table[bits >> 32 & mask];
        out[i + 3] = table[bits >> 48 & mask];
    }
    const uint64_t bits = mixed_bits(key + static_cast<uint64_t>(i));
    for (int shift = 0; i < end; ++i, shift += 16) out[i] = table[bits >> shift & mask];
}

template <typename T>
void fill(const Context& context, uint64_t key, const ConstTensorView& table,
          const TensorView& out) {
    constexpr int64_t kGrain = int64_t{1} << 16;
    const auto mask = static_cast<uint64_t>(table.numel() - 1);
    context.threads->parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end, int) {
        fill_range(key, table.as<T>(), mask, out.as<T>(), begin, end);
    });
}

}  // namespace

void add(const Context& context, const ConstTensorView& x, const TensorView& y) {
    const RowIndex source(x);
    const RowIndex target(y);
    const auto kernel = kernels().add;
    parallel_rows(context, source.count(), source.width(), [&](int64_t row) {
        kernel(x.as<float>() + source.offset(row), y.as<float>() + target.offset(row),
               source.width());
    });
}

void copy(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const RowIndex source(x);
    const RowIndex target(out);
    const auto bytes = static_cast<size_t>(source.width()) * sizeof(float);
    parallel_rows(context, source.count(), source.width(), [&](int64_t row) {
        std::memcpy(out.as<float>() + target.offset(row), x.as<float>() + source.offset(row),
                    bytes);
    });
}

void soft_cap(const Context& context, float cap, const TensorView& x) {
    const RowIndex rows(x);
    const auto kernel = kernels().soft_cap;
    parallel_rows(context, rows.count(), rows.width(), [&](int64_t row) {
        kernel(cap, x.as<float>() + rows.offset(row), rows.width());
    });
}

void scale(const Context& context, float factor, const TensorView& x) {
    const RowIndex rows(x);
    const auto kernel = kernels().scale;
    parallel_rows(context, rows.count(), rows.width(), [&](int64_t row) {
        float* const values = x.as<float>() + rows.offset(row);
        kernel(values, factor, values, rows.width());
    });
}

void scale_rows(const Context& context, const ConstTensorView& factors, const TensorView& x) {
    const auto kernel = kernels().scale;
    parallel_rows(context, x.dim(0), x.dim(1), [&](int64_t row) {
        float* const values = x.as<float>() + row * x.stride(0);
        kernel(values, factors.as<float>()[row], values, x.dim(1));
    });
}

void row_maxima(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const auto kernel = kernels().magnitude;
    parallel_rows(context, x.dim(0), x.dim(1), [&](int64_t row) {
        out.as<float>()[row] = kernel(x.as<float>() + row * x.stride(0), x.dim(1));
    });
}

void gather_rows(const Context& context, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out) {
    const int64_t width = x.dim(1);
    parallel_rows(context, rows.dim(0), width, [&](int64_t row) {
        const int64_t from = rows.as<int32_t>()[row];
        NVLLM_CHECK(from >= 0 && from < x.dim(0), "gather_rows: no row " + std::to_string(from));
        std::memcpy(out.as<float>() + row * out.stride(0), x.as<float>() + from * x.stride(0),
                    static_cast<size_t>(width) * sizeof(float));
    });
}

void convert(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const int64_t count = x.numel();
    const auto upcast = kernels().upcast[float_type_index(x.dtype)];
    const auto narrow = kernels().narrow[float_type_index(out.dtype)];
    context.threads->parallel_for(count, kValuesPerRange, [&](int64_t begin, int64_t end, int) {
        constexpr int64_t kPiece = 256;
        float values[kPiece];
        for (int64_t i = begin; i < end; i += kPiece) {
            const int64_t piece = std::min(kPiece, end - i);
            upcast(element(x.data, x.dtype, i), 1.0f, values, piece);
            narrow(values, element(out.data, out.dtype, i), piece);
        }
    });
}

void fill_random(const Context& context, uint64_t key, const ConstTensorView& table,
                 const TensorView& out) {
    if (dtype_bytes(out.dtype) == sizeof(uint16_t)) {
        fill<uint16_t>(context, key, table, out);
    } else {
        fill<uint32_t>(context, key, table, out);
    }
}

}  // namespace nvllm::cpu
