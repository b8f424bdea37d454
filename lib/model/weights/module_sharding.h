// Whether the linears of a module can be shared out among ranks. A module is cut as a whole or each
// rank has all of it: what lies between its linears follows from both.
#pragma once

#include <span>
#include <vector>

#include "lib/model/weights/scheme.h"

namespace nvllm {

class ModuleSharding {
  public:
    // Of a module that is not cut.
    ModuleSharding() = default;
    // `linears`: whole ones, of all columns and rows that are to be cut. Where one of them cannot
    // be, the source counts the module as one that all ranks have.
    ModuleSharding(WeightSource& source, std::span<const LinearSpec> linears);

    // This rank's; whole where the module is not cut.
    const Shard& shard() const { return shard_; }
    // Of a number of heads or channels that the ranks share out.
    int64_t share(int64_t count) const { return count / shard_.ranks; }
    // Of heads that several ranks may have.
    int64_t shared_heads(int64_t count) const {
        return ShardPiece(count, count, true).share_of(shard_);
    }
    LinearSpec of(const LinearSpec& linear) const { return slice_of(linear, shard_); }
    std::vector<LinearSpec> of(std::span<const LinearSpec> linears) const;

  private:
    Shard shard_;
};

}  // namespace nvllm
