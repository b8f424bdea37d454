// Next-token layers that a checkpoint holds beside its own layers, to predict the token after the
// next (multi-token prediction; DeepSeek-AI 2024).
#pragma once

#include <filesystem>

#include "lib/model/drafts/draft_head_loader.h"
#include "lib/model/weights/checkpoint_source.h"

namespace nvllm {

// The config of the directory's next-token layer. Throws not_found, or bad_data where it has none
// or one of a layout that is not read, which is named.
DraftHeadConfig read_mtp_config(const std::filesystem::path& directory);

// Its parts out of the checkpoint of the whole model. Throws bad_data that names a tensor.
DraftHeadParts load_mtp(const DraftHeadConfig& config, const DraftHeadLoadOptions& options,
                        CheckpointSource& source);

}  // namespace nvllm
