// Reading and writing of sparse-24-bitmask.
#include "lib/model/weights/sparse_bitmask.h"

#include <fmt/format.h>

#include <bit>
#include <optional>

#include "kernels/error.h"
#include "lib/model/weights/meta_weight_source.h"

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

// Of four neighbours in a row: bit i says whether value i is kept.
unsigned kept_of_four(const uint8_t* mask, int64_t four) {
    return (mask[four / 2] >> (four % 2 * 4)) & 15u;
}

// The first columns of which not two are kept, in the first such row.
struct WrongFour {
    int64_t row;
    int64_t column;
};
std::optional<WrongFour> find_wrong_four(const SparseMatrix& matrix) {
    for (int64_t row = 0; row < matrix.out(); ++row) {
        const uint8_t* mask = matrix.places.view().as<uint8_t>() + row * mask_bytes(matrix.in());
        for (int64_t four = 0; four < matrix.in() / 4; ++four) {
            if (std::popcount(kept_of_four(mask, four)) != 2) return WrongFour{row, four * 4};
        }
    }
    return std::nullopt;
}

template <typename T>
void spread_row(const T* kept, const uint8_t* mask, int64_t in, T* row) {
    for (int64_t column = 0; column < in; ++column) {
        if (has_bit(mask, column)) row[column] = *kept++;
    }
}

// Of each four columns every pair is as likely as another.
Tensor made_up_places(const LinearSpec& linear) {
    constexpr uint8_t kPairs[] = {3, 5, 6, 9, 10, 12};
    Tensor places = Tensor::allocate(DType::u8, {linear.out, mask_bytes(linear.in)});
    auto* mask = places.mutable_view().as<uint8_t>();
    for (int64_t row = 0; row < linear.out; ++row, mask += mask_bytes(linear.in)) {
        for (int64_t four = 0; four < linear.in / 4; ++four) {
            const auto pair = static_cast<unsigned>(kPairs[(row * 7 + four * 5) % 6]);
            mask[four / 2] |= static_cast<uint8_t>(pair << (four % 2 * 4));
        }
    }
    return places;
}

SparseMatrix make_up(WeightSource& source, const LinearSpec& linear) {
    SparseMatrix matrix;
    matrix.kept =
        source.read(linear.name + ".weight", {linear.out, linear.in / 2}, WeightRole::matrix);
    matrix.places = source.has_values()
                        ? made_up_places(linear)
                        : meta_tensor(DType::u8, {linear.out, mask_bytes(linear.in)});
    return matrix;
}

SparseMatrix made_up_slice(WeightSource& source, const LinearSpec& linear) {
    if (linear.shard.is_whole() || !source.has_values()) return make_up(source, linear);
    check_slice(linear, {1, 8});
    SparseMatrix matrix = make_up(source, linear.whole());
    return {cut(matrix.kept, linear.slice()), cut(matrix.places, linear.slice())};
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

bool stores_sparse(const WeightSource& source, const LinearSpec& linear) {
    if (source.keeps_files()) {
        return source.has(linear.name + ".compressed") && source.has(linear.name + ".bitmask");
    }
    const QuantizationConfig* const config = source.quantization();
    return config != nullptr && config->keeps_two_of_four(linear.name) &&
           linear.order == MatrixOrder::out_in && linear.in % 4 == 0;
}

SparseMatrix read_sparse(WeightSource& source, const LinearSpec& linear,
                         std::initializer_list<DType> types) {
    if (!source.keeps_files()) return made_up_slice(source, linear);
    const std::string& name = linear.name;
    if (linear.in % 4 != 0) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {}.compressed is of {} columns, no multiple of four",
                                source.place_of(name + ".compressed"), name, linear.in));
    }
    SparseMatrix matrix;
    check_slice(linear, {1, 8});  // a byte of the mask
    matrix.kept = source.read_stored(name + ".compressed", {linear.out, linear.in / 2}, types,
                                     linear.slice());
    matrix.places = source.read_stored(name + ".bitmask", {linear.out, mask_bytes(linear.in)},
                                       {DType::u8}, linear.slice());
    source.read_stored(name + ".shape", {2}, {DType::i64}, {});
    if (!source.has_values()) return matrix;
    if (const auto wrong = find_wrong_four(matrix)) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {}.bitmask does not keep two of columns {} to {} of "
                                "row {}",
                                source.place_of(name + ".bitmask"), name, wrong->column,
                                wrong->column + 3, wrong->row));
    }
    return matrix;
}

Tensor with_zeros(const WeightSource& source, const SparseMatrix& matrix) {
    const DType type = matrix.kept.view().dtype;
    const int64_t in = matrix.in();
    if (!source.has_values()) return meta_tensor(type, {matrix.out(), in});
    Tensor dense = Tensor::allocate(type, {matrix.out(), in});
    with_bytes(type, [&](auto zero) {
        using T = decltype(zero);
        for (int64_t row = 0; row < matrix.out(); ++row) {
            spread_row(matrix.kept.view().as<T>() + row * (in / 2),
                       matrix.places.view().as<uint8_t>() + row * mask_bytes(in), in,
                       dense.mutable_view().as<T>() + row * in);
        }
    });
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
