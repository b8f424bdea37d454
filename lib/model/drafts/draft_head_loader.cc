// Choosing how a head is read, and comparing it with its target.
#include "lib/model/drafts/draft_head_loader.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/error.h"
#include "kernels/ops/open_backend.h"
#include "lib/checkpoint/foreign_models.h"
#include "lib/model/drafts/eagle.h"
#include "lib/model/drafts/head_source.h"
#include "lib/model/drafts/mtp.h"
#include "lib/model/loader.h"
#include "lib/model/registry.h"

namespace nvllm {
namespace {

void check_fits(const DraftHeadConfig& head, const ModelConfig& target,
                const DraftHeadLoadOptions& options) {
    const auto refuse = [&](const char* what, int64_t of_head, int64_t of_target) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: the draft head is for a target with {} {}, and {} has {}",
                                options.directory.string(), what, of_head,
                                options.target_directory.string(), of_target));
    };
    if (head.target_hidden_size != target.hidden_size) {
        refuse("hidden size", head.target_hidden_size, target.hidden_size);
    }
    if (head.block.vocab_size != target.vocab_size) {
        refuse("vocabulary", head.block.vocab_size, target.vocab_size);
    }
    aux_layers(head, target.num_layers, options.reading.aux_layers);
}

CheckpointUse use_of(const DraftHeadLoadOptions& options) {
    return options.headers_only ? CheckpointUse::headers : CheckpointUse::values;
}

}  // namespace

std::unique_ptr<DraftHead> load_draft_head(const DraftHeadLoadOptions& options) {
    NVLLM_CHECK(options.threads != nullptr, "loading needs a thread pool");
    const DraftHeadConfig config = read_draft_head_config(options.directory);
    const bool is_own = config.method == DraftMethod::mtp;
    const bool is_apart = !is_own || (!options.target_directory.empty() &&
                                      options.target_directory != options.directory);
    if (is_apart) check_fits(config, read_model_config(options.target_directory), options);
    const auto source =
        open_head_source(options.directory, resolve_dtype(config.block, options.dtype),
                         *options.threads, open_device(options.device), use_of(options));
    DraftHeadParts parts =
        is_own ? load_mtp(config, options, *source) : load_eagle(config, options, *source);
    source->finish();
    return std::make_unique<DraftHead>(config, options.reading, std::move(parts));
}

DraftHeadConfig read_draft_head_config(const std::filesystem::path& directory) {
    require_config(directory);
    if (!find_draft_layout(directory)) return read_mtp_config(directory);
    return read_draft_head_config(directory, known_families());
}

}  // namespace nvllm
