// An adapter of a loaded model as this rank computes it: its matrices, all in one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/ops/lora.h"
#include "kernels/page_memory.h"
#include "lib/checkpoint/adapter/adapter_file.h"
#include "lib/model/lora/lora_batch.h"
#include "lib/model/lora/lora_targets.h"

namespace nvllm {

// What of an adapter cannot be computed, or is of another model: bad_data that names the file and
// the module. `targets`: of the whole model.
void check_adapter(const AdapterFile& file, const LoraTargets& targets);

// A pair of matrices with offsets from the begin of its adapter's block in place of addresses;
// empty: it has none.
struct PlacedPair {
    ops::LoraPair pair;
    std::optional<size_t> a;
    std::optional<size_t> b;
    std::optional<size_t> bias;
};
struct PlacedTable {
    LoraTable::Kind kind = LoraTable::Kind::head;
    size_t offset = 0;
    int64_t rows = 0;
    int64_t columns = 0;
    DType dtype = DType::f32;
    float scale = 1.0f;
};

class Adapter {
  public:
    // This rank's slices of the file's modules; modules that it has not are those of other stages.
    // Values of wider types than `widest` are rounded to it. Throws bad_data, does_not_fit.
    // REQUIRES: check_adapter() was content with the whole model.
    Adapter(const AdapterFile& file, const LoraTargets& targets, DType widest = DType::f32);

    const std::byte* data() const { return memory_.get(); }
    size_t bytes() const { return bytes_; }
    // By LoraTarget::first_pair and part, for a copy of the block at `base`.
    std::vector<ops::LoraPair> pairs_at(const std::byte* base) const;
    // Alike, on that device.
    std::vector<LoraTable> tables_at(const std::byte* base, int32_t slot, Device device) const;

  private:
    PageMemory memory_;
    size_t bytes_ = 0;
    std::vector<PlacedPair> pairs_;
    std::vector<PlacedTable> tables_;
};

}  // namespace nvllm
