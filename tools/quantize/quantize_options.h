// What nvllm-quantize is asked for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/options.h"
#include "lib/quantize/adapter_merge.h"
#include "lib/quantize/pipeline.h"
#include "lib/quantize/recipe.h"

namespace nvllm::quantize_tool {

struct QuantizeOptions {
    std::string model;
    std::string output;
    std::string merge_lora;
    std::string format = "compressed-tensors";
    bool save_compressed = false;
    std::string recipe_file;
    std::string scheme = "W4A16";
    std::vector<std::string> methods;  // empty: gptq
    std::string group_size;
    std::vector<std::string> targets;
    std::vector<std::string> ignore;  // beside lm_head; "none": not even that
    std::string actorder = "static";
    double dampening_frac = 0.01;
    int64_t block_size = 128;
    double smoothing_strength = 0.5;
    int64_t n_grid = 20;
    bool duo_scaling = true;
    bool clip = false;
    double sparsity = 0.5;
    std::string mask_structure;
    std::string kv_cache_scheme = "none";
    std::vector<std::string> calibration;
    std::string calibration_format;
    int64_t num_samples = 512;
    int64_t max_seq_length = 2048;
    bool concatenate = true;
    bool shuffle = true;
    uint64_t seed = 0;
    std::string calibration_dtype = "auto";
    bool propagate_error = true;
    std::optional<uint64_t> memory_limit;
    std::string offload_dir;
    int32_t threads = 0;
    std::string eval;
    int64_t eval_tokens = 0;
    bool resume = false;
    bool restart = false;
    bool dry_run = false;
    std::string progress = "auto";

    // From the file when there is one; what it has that is not heeded goes to `notes`.
    quantize::Recipe recipe(std::vector<std::string>& notes) const;
    // With --merge-lora.
    quantize::MergeOptions merge(const std::filesystem::path& model_folder) const;
    // `model_folder`: where the model lies. The output is named after it by default.
    quantize::PipelineOptions pipeline(const std::filesystem::path& model_folder) const;
    std::string scheme_and_method() const;
    // What becomes of a run of this output that was interrupted. Throws usage.
    quantize::InterruptedRun interrupted() const;

  private:
    quantize::Recipe recipe_of_flags() const;
    // "MODEL-ENDING" in the current folder, where no option says it.
    std::filesystem::path output_of(const std::filesystem::path& model_folder,
                                    const std::string& ending) const;
};

OptionList<QuantizeOptions> quantize_options();

}  // namespace nvllm::quantize_tool
