// From a draft head's directory to a head that can run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "kernels/device.h"
#include "kernels/host/thread_pool.h"
#include "lib/model/drafts/draft_head.h"

namespace nvllm {

struct DraftHeadLoadOptions {
    // Of the head's own files, or of a model with next-token layers.
    std::filesystem::path directory;
    // Of the model that the head drafts for, which has the embedding and the output matrix that the
    // head lacks. Of next-token layers, which have their own model's, it is only compared.
    std::filesystem::path target_directory;
    // Of the operands of matmuls; empty: as the head's config says.
    std::optional<DType> dtype = std::nullopt;
    DraftReading reading = {};
    int64_t max_model_len = 0;  // longest sequence that will run; 0: the head's own limit
    bool headers_only = false;  // for a plan of memory: weights without values
    ThreadPool* threads = nullptr;
    DeviceChoice device = {};
};

// The head with all its weights checked. Throws not_found, or bad_data that names a tensor which is
// missing, of another shape or left over, or in what the target does not fit.
// REQUIRES: options.threads; the head keeps no reference to it.
std::unique_ptr<DraftHead> load_draft_head(const DraftHeadLoadOptions& options);

// The config of the directory's draft head, else of its model's next-token layer. Throws not_found
// or bad_data as the function of this name in lib/checkpoint/draft_head_config.h.
DraftHeadConfig read_draft_head_config(const std::filesystem::path& directory);

}  // namespace nvllm
