// Quantized linears as the CPU multiplies them, kept in a file from one start to the next
// (--repack-cache).
//
// One safetensors file for a model and all that packing depends on, which the file repeats in its
// metadata: a file that says something else is not used. Several processes may share a folder:
// files appear whole, and a mapped one is shared memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kernels/ops/matmul_quantized.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

// The factors of a product; the views in `weight` are those of the tensors.
struct RepackedLinear {
    ops::QuantizedWeight weight;
    Tensor packed;   // uint8, as ops::pack_weight() writes it
    Tensor columns;  // int32 [in], or empty
};

// Used by one thread while a model is made.
class RepackCache {
  public:
    // Makes the folder where it is missing. Throws cannot_create.
    RepackCache(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                DType compute_type);

    // The linear as it was kept, mapped; empty: it is not there with these dimensions.
    std::optional<RepackedLinear> find(const std::string& linear, int64_t in, int64_t out);
    // Keeps it from finish() on.
    void add(const std::string& linear, const RepackedLinear& repacked);
    // Writes the file anew if something was added; what goes wrong goes to the log, since the model
    // runs without.
    void finish();

    const std::filesystem::path& path() const { return path_; }

  private:
    void open();

    std::filesystem::path path_;
    std::string identity_;
    std::shared_ptr<const SafetensorsFile> file_;    // null: there is none that can be used
    std::map<std::string, RepackedLinear> linears_;  // found or added
    bool has_new_ = false;
};

}  // namespace nvllm
