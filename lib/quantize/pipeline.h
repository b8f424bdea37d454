// From a model's folder and a recipe to the folder of a smaller model: block by block, in the
// memory of one block.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/quantize/block_forward.h"
#include "lib/quantize/block_solution.h"
#include "lib/quantize/calibration.h"
#include "lib/quantize/checkpoint_writer.h"
#include "lib/quantize/journal.h"
#include "lib/quantize/report.h"

namespace nvllm::quantize {

class ActivationStore;

struct PipelineOptions {
    std::filesystem::path model;
    std::filesystem::path output;
    CalibrationOptions calibration;
    // Of products while the model is observed; empty: as HookedModel says.
    std::optional<DType> compute_type;
    // The inputs of a block come from the quantized blocks before it, else from the dense ones.
    bool propagates_error = true;
    InterruptedRun interrupted = InterruptedRun::refused;
    // Above it activations go to a file; empty: three quarters of what is available.
    std::optional<uint64_t> memory_limit_bytes;
    std::filesystem::path offload_folder;  // empty: beside the output
    uint64_t shard_bytes = kShardBytes;
    int num_threads = 0;  // 0: one for each physical core
    std::string version;  // of the program, which goes on with its own runs only
};

// What a run will take, known before it begins.
struct ResourcePlan {
    uint64_t block_bytes = 0;       // weights of the largest block, as they are worked on
    uint64_t moments_bytes = 0;     // second moments of its inputs, and their largest factor
    uint64_t forward_bytes = 0;     // keys, values and temporaries of one sample, or of a factor
    uint64_t activation_bytes = 0;  // hidden states of all samples
    bool spills = false;            // those go to a file
    uint64_t output_bytes = 0;      // of the weights, about
    uint64_t disk_bytes = 0;        // at most, while the output is written
    double operations = 0.0;        // multiplications and additions, about

    uint64_t peak_bytes() const {
        return block_bytes + moments_bytes + forward_bytes + (spills ? 0 : activation_bytes);
    }
};

struct PipelineEvents {
    // After each linear: how many of how many are done.
    std::function<void(const LinearRecord&, size_t done, size_t total)> linear_done;
    // How far the work is, 0 to 1.
    std::function<void(double share)> progress;
    // Asked often; true: stop. What is done is kept.
    std::function<bool()> is_stopped;
};

// Thrown when events said to stop.
struct Stopped {};

struct PipelineResult {
    std::vector<LinearRecord> linears;
    std::vector<double> block_errors;  // as verify_written() gives them
    WrittenSizes sizes;
    size_t num_resumed = 0;  // blocks that an interrupted run had done
};

class Pipeline {
  public:
    // Reads the model's headers and the calibration text; checks the recipe against the model.
    // Throws usage, not_found, bad_data.
    Pipeline(PipelineOptions options, Recipe recipe);
    ~Pipeline();

    const ResourcePlan& resources() const { return resources_; }
    const ModelPlan& plan() const { return plan_; }
    const HookedModel& model() const { return model_; }
    // What the user should know of the model and the plan before they are carried out.
    std::vector<std::string> notes() const;
    // Null when the recipe needs none.
    const CalibrationSet* calibration() const { return calibration_ ? &*calibration_ : nullptr; }
    // Linears that will change, be it that they are stored dense afterwards.
    size_t num_changed() const;
    // Throws does_not_fit when memory or disk cannot hold what the plan says.
    void check_resources() const;

    // Whether this very run was ended after its output had appeared: nothing is left to do, and
    // what lay beside the output is gone now.
    bool finish_published() const;
    // Everything up to the folder that would become the output, which is then loaded and run beside
    // the source; publish() makes it appear. Throws bad_data where a value of the source is no
    // number, or the output is not what was solved.
    PipelineResult run(const PipelineEvents& events);
    // What a report says of that, but for an evaluation.
    Report report(const PipelineResult& result) const;
    // The unpublished output, between run() and publish().
    const std::filesystem::path& unpublished() const { return unpublished_; }
    void publish();

  private:
    // Blocks, and behind them what lies outside of blocks (the head).
    int32_t num_stages() const { return model_.model().num_blocks() + 1; }
    std::vector<size_t> linears_of_stage(int32_t stage) const;
    bool is_needed(int32_t stage) const;
    bool changes(size_t linear) const;
    bool sees_any(int32_t stage) const;
    bool is_block(int32_t stage) const { return stage < model_.model().num_blocks(); }
    bool scales_cache(int32_t stage) const { return is_block(stage) && plan_.kv_cache_scheme(); }
    std::string identity() const;
    void plan_resources();
    // `forward_bytes`: of a forward pass, without what observes it.
    void plan_stage(int32_t stage, uint64_t forward_bytes);
    void watch(const std::vector<size_t>& linears);
    void observe(int32_t stage, const PipelineEvents& events);
    void propagate(int32_t stage, const SolvedBlock& block, const PipelineEvents& events);
    void run_samples(int32_t stage, bool in_place, CacheRanges* cached,
                     const PipelineEvents& events);
    SolvedBlock block_of_stage(int32_t stage, const PipelineEvents& events, PipelineResult& result);
    void write_output(PipelineResult& result);
    void verify_output(PipelineResult& result);

    PipelineOptions options_;
    ThreadPool threads_;
    HookedModel model_;
    ModelPlan plan_;
    std::optional<CalibrationSet> calibration_;
    ResourcePlan resources_;
    StatisticsCollector statistics_{model_.compute_type()};
    CacheRanges cached_;  // by the block that was observed last
    std::optional<Journal> journal_;
    std::unique_ptr<BlockForward> forward_;
    std::unique_ptr<ActivationStore> activations_;
    std::filesystem::path unpublished_;
    size_t num_done_ = 0;
    double work_done_ = 0.0;
};

}  // namespace nvllm::quantize
