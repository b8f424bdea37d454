// Values that are no numbers are found by tensor and position, in every type.
#include "lib/quantize/source_check.h"

#include <doctest/doctest.h>

#include <cstring>

#include "lib/checkpoint/safetensors.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kRows = 30, kColumns = 7000;

// A matrix of ones in a block, and outside of blocks a vector; one value of one of them is `odd`.
void write_model(const std::filesystem::path& folder, DType type, uint64_t one, uint64_t odd,
                 bool in_block) {
    const size_t bytes = dtype_bytes(type);
    Tensor matrix = Tensor::allocate(type, {kRows, kColumns});
    Tensor vector = Tensor::allocate(type, {kColumns});
    const auto put = [&](Tensor& tensor, int64_t index, uint64_t bits) {
        std::memcpy(tensor.mutable_view().as<std::byte>() + static_cast<size_t>(index) * bytes,
                    &bits, bytes);
    };
    for (int64_t i = 0; i < kRows * kColumns; ++i) put(matrix, i, one);
    for (int64_t i = 0; i < kColumns; ++i) put(vector, i, one);
    if (in_block) {
        put(matrix, 20 * kColumns + 11, odd);
        put(matrix, 29 * kColumns, odd);
    } else {
        put(vector, 4001, odd);
    }
    write_safetensors(folder / "model.safetensors",
                      std::vector<TensorToWrite>{{"model.layers.3.w.weight", matrix.view()},
                                                 {"model.norm.weight", vector.view()}},
                      {});
}

TEST_CASE("the first value that is no number is named with its tensor and position") {
    struct Row {
        DType type;
        uint64_t one, nan, infinity;
    };
    for (const Row& row :
         {Row{DType::f32, 0x3f800000, 0x7fc00000, 0xff800000},
          Row{DType::bf16, 0x3f80, 0x7fc0, 0x7f80}, Row{DType::f16, 0x3c00, 0x7e00, 0xfc00},
          Row{DType::f64, 0x3ff0000000000000, 0x7ff8000000000000, 0x7ff0000000000000},
          Row{DType::f8_e4m3, 0x38, 0xff, 0x7f}}) {
        CAPTURE(dtype_name(row.type));
        ThreadPool threads(2);
        for (const bool in_block : {true, false}) {
            for (const uint64_t odd : {row.nan, row.infinity}) {
                const test::Folder folder;
                write_model(folder.path(), row.type, row.one, odd, in_block);
                const Checkpoint checkpoint = Checkpoint::open(folder.path());
                const std::optional<int32_t> block = in_block ? std::optional(3) : std::nullopt;
                const std::string message = test::error_of(
                    ErrorKind::bad_data, [&] { check_finite(checkpoint, block, threads); });
                CHECK(message.find(in_block
                                       ? "tensor model.layers.3.w.weight holds"
                                       : "tensor model.norm.weight holds") != std::string::npos);
                CHECK(message.find(in_block ? "at [20, 11]" : "at [4001]") != std::string::npos);
                const bool is_infinite = odd == row.infinity && row.type != DType::f8_e4m3;
                CHECK((message.find("infinity") != std::string::npos) == is_infinite);
                // The other part of the model is as it should be.
                check_finite(checkpoint, in_block ? std::nullopt : std::optional(3), threads);
            }
        }
    }
}

}  // namespace
}  // namespace nvllm::quantize
