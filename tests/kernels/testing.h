// The test macros, from doctest where it is installed and otherwise from a few lines here, and what
// op tests share.
//
// kernels/ and its tests need only a compiler: without doctest, compile tests/kernels/*.cc with
// kernels/ and run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#if __has_include(<doctest/doctest.h>)
#include <doctest/doctest.h>
#else
#include <iostream>

namespace testing {

struct Case {
    const char* name;
    void (*run)();
};
std::vector<Case>& cases();
int& failures();

struct Register {
    Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

inline void report(bool passed, const char* file, int line, const char* condition) {
    if (passed) return;
    ++failures();
    std::cerr << file << ":" << line << ": " << condition << " is false\n";
}

}  // namespace testing

#define NVLLM_JOIN(a, b) a##b
#define NVLLM_NAME(a, b) NVLLM_JOIN(a, b)
#define TEST_CASE(name)                                                                          \
    static void NVLLM_NAME(test_, __LINE__)();                                                   \
    static const testing::Register NVLLM_NAME(register_, __LINE__)(name,                         \
                                                                   NVLLM_NAME(test_, __LINE__)); \
    static void NVLLM_NAME(test_, __LINE__)()
#define CHECK(condition) \
    testing::report(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define REQUIRE(condition)                                          \
    do {                                                            \
        if (!(condition)) {                                         \
            testing::report(false, __FILE__, __LINE__, #condition); \
            return;                                                 \
        }                                                           \
    } while (false)
#define CHECK_THROWS_AS(expression, type)                                          \
    do {                                                                           \
        bool thrown = false;                                                       \
        try {                                                                      \
            static_cast<void>(expression);                                         \
        } catch (const type&) {                                                    \
            thrown = true;                                                         \
        }                                                                          \
        testing::report(thrown, __FILE__, __LINE__, #expression " throws " #type); \
    } while (false)
#define INFO(value) static_cast<void>(value)
#define CAPTURE(value) static_cast<void>(value)
#endif

#include "kernels/context.h"
#include "kernels/cpu/dispatch/isa.h"
#include "kernels/host/thread_pool.h"
#include "kernels/view.h"

namespace testing {

#ifdef NVLLM_ON_DEVICE
// Whose memory kernels on a GPU read and write as well.
const nvllm::ComputeDevice& memory_of_tests();
#else
inline nvllm::ComputeDevice memory_of_tests() { return {}; }
#endif

// A context with its own threads and scratch memory.
class Machine {
  public:
    explicit Machine(int num_threads = 2)
        : threads_(num_threads), scratch_(size_t{1} << 20, memory_of_tests()) {
        context_.threads = &threads_;
        context_.scratch = &scratch_;
    }
    const nvllm::Context& context() const { return context_; }
    nvllm::ScratchArena& scratch() { return scratch_; }

  private:
    nvllm::ThreadPool threads_;
    nvllm::ScratchArena scratch_;
    nvllm::Context context_;
};

// Runs `body` under every instruction set of this machine and on emulated tiles, then restores the
// choice.
void for_each_isa(const std::function<void(nvllm::cpu::Isa)>& body);

// The same numbers on every machine: uniform in [-1, 1].
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
    uint64_t next();
    float uniform();
    std::vector<float> values(int64_t count, float scale = 1.0f);
    int64_t below(int64_t limit) {
        return static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
    }

  private:
    uint64_t state_;
};

// Owned memory of any float type or int8, filled from float32 values by the scalar conversions of
// types.h.
class Buffer {
  public:
    Buffer(nvllm::DType dtype, const std::vector<float>& values);
    Buffer(nvllm::DType dtype, int64_t count)
        : Buffer(dtype, std::vector<float>(static_cast<size_t>(count))) {}

    // Exactly what is stored.
    float operator[](int64_t index) const;
    void set(int64_t index, float value);
    int64_t size() const { return count_; }
    nvllm::TensorView view(std::initializer_list<int64_t> shape) {
        return {bytes_.data(), dtype_, shape};
    }
    // A matrix whose rows are `stride` apart.
    nvllm::TensorView matrix(int64_t rows, int64_t columns, int64_t stride);

  private:
    nvllm::DType dtype_;
    int64_t count_;
    std::vector<uint8_t> bytes_;
};

inline nvllm::TensorView view(std::vector<float>& values, std::initializer_list<int64_t> shape) {
    return {values.data(), nvllm::DType::f32, shape};
}
inline nvllm::TensorView view(std::vector<int32_t>& values, std::initializer_list<int64_t> shape) {
    return {values.data(), nvllm::DType::i32, shape};
}
inline nvllm::TensorView view(std::vector<int64_t>& values, std::initializer_list<int64_t> shape) {
    return {values.data(), nvllm::DType::i64, shape};
}
// A float32 matrix whose rows are `stride` apart.
nvllm::TensorView matrix(std::vector<float>& values, int64_t rows, int64_t columns, int64_t stride);

constexpr nvllm::DType kFloatTypes[] = {nvllm::DType::f32, nvllm::DType::bf16, nvllm::DType::f16};

// |a - b| within `relative` of |b|, or within `absolute`.
bool close(double a, double b, double relative, double absolute = 0);

// The same bits.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace testing
