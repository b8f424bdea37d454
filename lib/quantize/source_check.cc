// One pass over the bits of each tensor.
#include "lib/quantize/source_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/error.h"
#include "lib/quantize/hooked_model.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kGrain = 1 << 16;

// A float is infinite or no number where all bits of its exponent are set; an E4M3 where all bits
// but the sign are.
struct FloatBits {
    uint64_t exponent;
    uint64_t fraction;
};

std::optional<FloatBits> bits_of(DType type) {
    switch (type) {
        case DType::f64:
            return FloatBits{0x7ff0000000000000u, 0x000fffffffffffffu};
        case DType::f32:
            return FloatBits{0x7f800000u, 0x007fffffu};
        case DType::bf16:
            return FloatBits{0x7f80u, 0x007fu};
        case DType::f16:
            return FloatBits{0x7c00u, 0x03ffu};
        case DType::f8_e5m2:
            return FloatBits{0x7cu, 0x03u};
        case DType::f8_e4m3:
            return FloatBits{0x7fu, 0x7fu};
        default:
            return std::nullopt;
    }
}

// Files may hold values at odd addresses.
template <typename Bits>
Bits bits_at(const std::byte* values, int64_t index) {
    Bits bits;
    std::memcpy(&bits, values + static_cast<size_t>(index) * sizeof(Bits), sizeof(Bits));
    return bits;
}

template <typename Bits>
int64_t first_odd(const ConstTensorView& view, FloatBits bits, ThreadPool& threads) {
    const auto* const values = view.as<std::byte>();
    const auto exponent = static_cast<Bits>(bits.exponent);
    std::atomic<int64_t> first{view.numel()};
    threads.parallel_for(view.numel(), kGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            if ((bits_at<Bits>(values, i) & exponent) != exponent) continue;
            int64_t before = first.load();
            while (i < before && !first.compare_exchange_weak(before, i)) {
            }
            return;
        }
    });
    return first.load();
}

int64_t first_odd(const ConstTensorView& view, FloatBits bits, ThreadPool& threads) {
    switch (dtype_bytes(view.dtype)) {
        case 1:
            return first_odd<uint8_t>(view, bits, threads);
        case 2:
            return first_odd<uint16_t>(view, bits, threads);
        case 4:
            return first_odd<uint32_t>(view, bits, threads);
        default:
            return first_odd<uint64_t>(view, bits, threads);
    }
}

bool is_nan(const ConstTensorView& view, int64_t index, FloatBits bits) {
    uint64_t raw = 0;
    const size_t bytes = dtype_bytes(view.dtype);
    std::memcpy(&raw, view.as<std::byte>() + static_cast<size_t>(index) * bytes, bytes);
    return (raw & bits.fraction) != 0;
}

std::vector<int64_t> position_of(const ConstTensorView& view, int64_t index) {
    std::vector<int64_t> position;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
        position.insert(position.begin(), index % view.dim(axis));
        index /= view.dim(axis);
    }
    return position;
}

}  // namespace

void check_finite(const Checkpoint& checkpoint, std::optional<int32_t> block, ThreadPool& threads) {
    for (const std::string_view name : checkpoint.names()) {
        if (block_of_name(name) != block) continue;
        const ConstTensorView view = *checkpoint.find(name);
        const std::optional<FloatBits> bits = bits_of(view.dtype);
        if (!bits) continue;
        const int64_t index = first_odd(view, *bits, threads);
        if (index == view.numel()) continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {} holds {} at [{}]; such a model cannot be quantized: "
                                "is the file damaged?",
                                checkpoint.file_of(name), name,
                                is_nan(view, index, *bits) ? "nan" : "infinity",
                                fmt::join(position_of(view, index), ", ")));
    }
}

}  // namespace nvllm::quantize
