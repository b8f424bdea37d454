// What op tests share, and the main function where doctest is missing.
#include "testing.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace testing {

using nvllm::BFloat16;
using nvllm::DType;
using nvllm::Float16;
using nvllm::Float8E4M3;

namespace {

constexpr int8_t kNoInteger = 0x55;  // for NaN

}  // namespace

#if !__has_include(<doctest/doctest.h>)
std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

int& failures() {
    static int count = 0;
    return count;
}
#endif

// splitmix64 (Steele et al. 2014)
uint64_t Random::next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

float Random::uniform() {
    return static_cast<float>(static_cast<int64_t>(next() >> 40) - (1 << 23)) /
           static_cast<float>(1 << 23);
}

std::vector<float> Random::values(int64_t count, float scale) {
    std::vector<float> result(static_cast<size_t>(count));
    for (float& value : result) value = uniform() * scale;
    return result;
}

Buffer::Buffer(DType dtype, const std::vector<float>& values)
    : dtype_(dtype),
      count_(static_cast<int64_t>(values.size())),
      bytes_(values.size() * dtype_bytes(dtype)) {
    for (int64_t i = 0; i < count_; ++i) set(i, values[static_cast<size_t>(i)]);
}

float Buffer::operator[](int64_t index) const {
    const uint8_t* data = bytes_.data() + static_cast<size_t>(index) * dtype_bytes(dtype_);
    if (dtype_ == DType::f32) {
        float value;
        std::memcpy(&value, data, sizeof(value));
        return value;
    }
    if (dtype_ == DType::i8) return static_cast<float>(std::bit_cast<int8_t>(*data));
    if (dtype_ == DType::f8_e4m3) return static_cast<float>(std::bit_cast<Float8E4M3>(*data));
    uint16_t bits;
    std::memcpy(&bits, data, sizeof(bits));
    if (dtype_ == DType::bf16) return static_cast<float>(std::bit_cast<BFloat16>(bits));
    return static_cast<float>(std::bit_cast<Float16>(bits));
}

void Buffer::set(int64_t index, float value) {
    uint8_t* data = bytes_.data() + static_cast<size_t>(index) * dtype_bytes(dtype_);
    if (dtype_ == DType::f32) {
        std::memcpy(data, &value, sizeof(value));
        return;
    }
    if (dtype_ == DType::i8) {
        *data = std::bit_cast<uint8_t>(std::isnan(value) ? kNoInteger : static_cast<int8_t>(value));
        return;
    }
    if (dtype_ == DType::f8_e4m3) {
        *data = Float8E4M3(value).bits;
        return;
    }
    const uint16_t bits = dtype_ == DType::bf16 ? BFloat16(value).bits : Float16(value).bits;
    std::memcpy(data, &bits, sizeof(bits));
}

nvllm::TensorView Buffer::matrix(int64_t rows, int64_t columns, int64_t stride) {
    nvllm::TensorView result = view({rows, columns});
    result.strides[0] = stride;
    return result;
}

nvllm::TensorView matrix(std::vector<float>& values, int64_t rows, int64_t columns,
                         int64_t stride) {
    nvllm::TensorView result(values.data(), DType::f32, {rows, columns});
    result.strides[0] = stride;
    return result;
}

bool close(double a, double b, double relative, double absolute) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (a == b) return true;
    return std::abs(a - b) <= std::max(relative * std::abs(b), absolute);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace testing

#if !__has_include(<doctest/doctest.h>)
int main() {
    for (const testing::Case& test : testing::cases()) {
        try {
            test.run();
        } catch (const std::exception& error) {
            ++testing::failures();
            std::cerr << test.name << ": " << error.what() << "\n";
        }
    }
    std::cout << testing::cases().size() << " test cases, " << testing::failures() << " failures\n";
    return testing::failures() == 0 ? 0 : 1;
}
#endif
