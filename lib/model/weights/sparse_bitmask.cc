// Reading and writing of sparse-24-bitmask.
#include "lib/model/weights/sparse_bitmask.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/model/weights/outline_source.h"

namespace nvllm {
namespace {

int64_t mask_bytes(int64_t in) { return (in + 7) / 8; }
bool has_bit(const uint8_t* mask, int64_t column) {
    return ((mask[column / 8] >> (column % 8)) & 1) != 0;
}

// Calls body with an unsigned integer of the type's size: values are moved, not read.
template <typename Body>
void with_bytes(DType type, Body body) {
    switch (dtype_bytes(type)) {
        case 1:
            return body(uint8_t{});
        case 2:
            return body(uint16_t{});
        default:
            NVLLM_CHECK(dtype_bytes(type) == 4, "weights have one, two or four bytes");
            return body(uint32_t{});
    }
}

// Of either sign.
template <typename T>
bool is_zero(T bits) {
    constexpr T sign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
    return (bits & static_cast<T>(~sign)) == 0;
}

// False when the mask's bits are not as many as there are values.
template <typename T>
bool spread_row(const T* values, int64_t count, const uint8_t* mask, int64_t in, T* row) {
    int64_t next = 0;
    for (int64_t column = 0; column < in; ++column) {
        if (!has_bit(mask, column)) continue;
        if (next == count) return false;
        row[column] = values[next++];
    }
    return next == count;
}

template <typename T>
int64_t first_wrong_row(const Tensor& compressed, const Tensor& mask, const Tensor& dense) {
    const int64_t in = dense.view().dim(1);
    for (int64_t row = 0; row < dense.view().dim(0); ++row) {
        if (!spread_row(compressed.view().as<T>() + row * (in / 2), in / 2,
                        mask.view().as<uint8_t>() + row * mask_bytes(in), in,
                        dense.mutable_view().as<T>() + row * in)) {
            return row;
        }
    }
    return -1;
}

// The kept values of four neighbours: those that are not zero, then the first others.
template <typename T>
void keep_two(const T* four, int64_t first, uint8_t* mask, T* kept, const std::string& linear) {
    int wanted = 0;
    for (int i = 0; i < 4; ++i) wanted += is_zero(four[i]) ? 0 : 1;
    if (wanted > 2) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: columns {} to {} have more than two values that are not zero",
                                linear, first, first + 3));
    }
    int spare = 2 - wanted;
    for (int i = 0; i < 4; ++i) {
        if (is_zero(four[i]) && spare-- <= 0) continue;
        mask[(first + i) / 8] |= static_cast<uint8_t>(1u << ((first + i) % 8));
        *kept++ = four[i];
    }
}

}  // namespace

bool stores_sparse(const WeightSource& source, const LinearName& linear) {
    return source.keeps_files() && source.has(linear.name + ".compressed") &&
           source.has(linear.name + ".bitmask");
}

Tensor read_sparse(WeightSource& source, const LinearName& linear,
                   std::initializer_list<DType> types) {
    const std::string& name = linear.name;
    if (linear.in % 4 != 0) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {}.compressed is of {} columns, no multiple of four",
                                source.place_of(name + ".compressed"), name, linear.in));
    }
    const Tensor values =
        source.read_stored(name + ".compressed", {linear.out, linear.in / 2}, types);
    const Tensor mask =
        source.read_stored(name + ".bitmask", {linear.out, mask_bytes(linear.in)}, {DType::u8});
    source.read_stored(name + ".shape", {2}, {DType::i64});
    const DType type = values.view().dtype;
    if (!source.has_values()) return outline_tensor(type, {linear.out, linear.in});
    Tensor dense = Tensor::allocate(type, {linear.out, linear.in});
    int64_t wrong = -1;
    with_bytes(type,
               [&](auto zero) { wrong = first_wrong_row<decltype(zero)>(values, mask, dense); });
    if (wrong >= 0) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {}.bitmask does not keep half of row {}",
                                source.place_of(name + ".bitmask"), name, wrong));
    }
    return dense;
}

std::vector<NamedTensor> pack_sparse(const Tensor& matrix, const std::string& linear) {
    const ConstTensorView& view = matrix.view();
    const int64_t out = view.dim(0);
    const int64_t in = view.dim(1);
    if (in % 4 != 0) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} columns are no multiple of four", linear, in));
    }
    Tensor values = Tensor::allocate(view.dtype, {out, in / 2});
    Tensor mask = Tensor::allocate(DType::u8, {out, mask_bytes(in)});
    Tensor shape = Tensor::allocate(DType::i64, {2});
    shape.mutable_view().as<int64_t>()[0] = out;
    shape.mutable_view().as<int64_t>()[1] = in;
    with_bytes(view.dtype, [&](auto zero) {
        using T = decltype(zero);
        for (int64_t i = 0; i < out * in / 4; ++i) {
            const int64_t row = i * 4 / in;
            keep_two(view.as<T>() + i * 4, i * 4 % in,
                     mask.mutable_view().as<uint8_t>() + row * mask_bytes(in),
                     values.mutable_view().as<T>() + i * 2, linear);
        }
    });
    return {
        {linear + ".compressed", values}, {linear + ".bitmask", mask}, {linear + ".shape", shape}};
}

}  // namespace nvllm
