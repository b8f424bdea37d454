// Draft heads of EAGLE, EAGLE-2 and EAGLE-3, in files of their own.
#pragma once

#include "lib/model/drafts/draft_head_loader.h"
#include "lib/model/weights/checkpoint_source.h"

namespace nvllm {

// Throws bad_data that names a tensor.
DraftHeadParts load_eagle(const DraftHeadConfig& config, const DraftHeadLoadOptions& options,
                          CheckpointSource& source);

}  // namespace nvllm
