// Owned and borrowed tensors.
#include "lib/tensor/tensor.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>

namespace nvllm {
namespace {

TEST_CASE("tensor: fresh memory is zero, aligned and writable") {
    const Tensor tensor = Tensor::allocate(DType::f32, {3, 5});
    CHECK_FALSE(tensor.empty());
    CHECK(tensor.bytes() == 60);
    CHECK(reinterpret_cast<uintptr_t>(tensor.view().data) % 64 == 0);
    for (int i = 0; i < 15; ++i) CHECK(tensor.view().as<float>()[i] == 0.0f);
    tensor.mutable_view().as<float>()[14] = 2.0f;
    const Tensor copy = tensor;
    CHECK(copy.view().as<float>()[14] == 2.0f);
    CHECK(copy.view().data == tensor.view().data);
}

TEST_CASE("tensor: what is as large as a huge page begins at one") {
    const Tensor tensor = Tensor::allocate(DType::u8, {3 << 20});
    CHECK(reinterpret_cast<uintptr_t>(tensor.view().data) % (2 << 20) == 0);
    tensor.mutable_view().as<uint8_t>()[(3 << 20) - 1] = 1;
}

TEST_CASE("tensor: storage lives as long as any copy") {
    Tensor copy;
    CHECK(copy.empty());
    CHECK(copy.bytes() == 0);
    {
        const Tensor tensor = Tensor::allocate(DType::i32, {4});
        tensor.mutable_view().as<int32_t>()[3] = 7;
        copy = tensor;
    }
    CHECK(copy.view().as<int32_t>()[3] == 7);
}

TEST_CASE("tensor: a borrowed tensor keeps its owner and is read-only") {
    auto owner = std::make_shared<std::array<float, 4>>();
    const std::weak_ptr<std::array<float, 4>> watch = owner;
    Tensor tensor = Tensor::borrow(ConstTensorView(owner->data(), DType::f32, {2, 2}), owner);
    owner.reset();
    CHECK_FALSE(watch.expired());
    CHECK(tensor.bytes() == 16);
    CHECK_THROWS_AS(tensor.mutable_view(), Error);
    tensor = {};
    CHECK(watch.expired());
}

TEST_CASE("tensor: empty shapes, and more memory than there is") {
    const Tensor none = Tensor::allocate(DType::f32, {0, 7});
    CHECK(none.bytes() == 0);
    CHECK_FALSE(none.empty());
    try {
        Tensor::allocate(DType::f32, {int64_t{1} << 40, int64_t{1} << 20});
        FAIL("was allocated");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::does_not_fit);
    }
}

}  // namespace
}  // namespace nvllm
