// Steps of one shape as graphs of the device: captured once, launched with one call each time.
//
// A graph reads its inputs where they lay when it was captured and leaves its results where they
// lay then: everything that moves memory (scratch that grew, inputs that moved) makes it useless,
// and all are captured anew. A shape is computed without a graph the first time, so that whatever
// is made with a first call is made before. Used by the worker's thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "kernels/backend.h"
#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm {

// What a graph was captured for.
struct GraphShape {
    int32_t rows = 0;   // one token each
    int32_t width = 0;  // of block tables
    // AdapterSlots::pattern() where rows have adapters; else -1.
    int64_t adapters = -1;

    auto operator<=>(const GraphShape&) const = default;
};

// The sizes that steps are filled up to: 1, 2, 4, 8, 16, 24 ... Empty when `rows` is more than
// `most`.
std::optional<int32_t> graph_rows_for(int32_t rows, int32_t most);

// Where a step left its results.
struct ComputedStep {
    TensorView hidden;
    // Of all rows that want them, where they were computed at once.
    std::optional<TensorView> logits;
};

struct GraphCounts {
    int64_t captures = 0;
    int64_t launches = 0;
};

class GraphCache {
  public:
    explicit GraphCache(const ComputeDevice& device);
    ~GraphCache();
    GraphCache(const GraphCache&) = delete;
    GraphCache& operator=(const GraphCache&) = delete;

    // False when the device keeps no graphs, or one could not be captured: from then on steps run
    // without.
    bool is_usable() const { return is_usable_; }
    // Does what `compute` puts into the context's stream. `address_version`: another number
    // whenever inputs lie elsewhere. REQUIRES: nothing was taken from the context's scratch since
    // its reset(); `compute` takes scratch of the same sizes each time for a shape, and never waits
    // for the stream.
    ComputedStep run(const Context& context, const GraphShape& shape, int64_t address_version,
                     const std::function<ComputedStep()>& compute);

    // Since it was made.
    const GraphCounts& counts() const { return counts_; }

  private:
    struct Entry {
        DeviceGraph graph = nullptr;  // null: the shape was computed once
        ComputedStep computed;
        size_t scratch_bytes = 0;  // in use when the step was computed
    };

    void forget();
    void forget_what_moved(const Context& context, int64_t address_version);
    // Ends a capture that failed midway.
    void abandon(const Context& context);
    // Null when it could not be.
    Entry* capture(const Context& context, Entry& entry,
                   const std::function<ComputedStep()>& compute);

    ComputeDevice device_;
    bool is_usable_ = true;
    int64_t address_version_ = -1;
    size_t num_growths_ = 0;
    std::map<GraphShape, Entry> entries_;
    GraphCounts counts_;
};

}  // namespace nvllm
