// A LoRA adapter merged into its base model: a checkpoint that has W + scale B A in place of W.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kernels/host/thread_pool.h"
#include "lib/quantize/checkpoint_writer.h"
#include "lib/quantize/journal.h"

namespace nvllm::quantize {

struct MergeOptions {
    std::filesystem::path model;
    std::filesystem::path adapter;
    std::filesystem::path output;
    InterruptedRun interrupted = InterruptedRun::refused;
    uint64_t shard_bytes = kShardBytes;
    int num_threads = 0;  // 0: one for each physical core
};

class AdapterMerge {
  public:
    // Reads the adapter and the model's headers. DoRA's magnitudes are merged too, and modules that
    // the engine does not adapt. Throws not_found and bad_data, also for a base model that is
    // quantized, and for what is of another model.
    explicit AdapterMerge(MergeOptions options);
    ~AdapterMerge();

    // What of the adapter's config is not heeded; empty: nothing.
    std::string note() const;
    size_t num_modules() const;  // of the adapter
    size_t num_changed() const;  // tensors of the output
    // The output matrix is no longer the embedding: the adapter changes one of them.
    bool unties() const;
    // Of the output's tensors.
    uint64_t output_bytes() const;
    // Makes the output, all of it or nothing. Throws cannot_create and io.
    WrittenSizes run();

  private:
    class Plan;

    MergeOptions options_;
    ThreadPool threads_;
    std::unique_ptr<Plan> plan_;
};

}  // namespace nvllm::quantize
