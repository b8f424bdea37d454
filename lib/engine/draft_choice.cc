// From the options of speculation to a proposer's setup.
#include "lib/engine/draft_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/engine/options/speculation_options.h"
#include "lib/execute/draft_states.h"
#include "lib/execute/propose/draft_runner.h"
#include "lib/execute/worker.h"

namespace nvllm {
namespace {

constexpr auto kFlag = "--speculative-config";
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;
// Tokens that one of two vocabularies of a model's sizes may have in addition.
constexpr int32_t kMostFurtherTokens = 128;

std::filesystem::path folder_of(const EngineConfig& config, const std::string& name,
                                const ModelLoadOptions& target) {
    if (name.empty()) return target.directory;
    return config.model.download_dir.empty()
               ? resolve_model_directory(name)
               : resolve_model_directory(name, config.model.download_dir);
}

void check_device(const ModelMetadata& model, const std::string& method) {
    if (model.device.is_cpu()) return;
    throw Error(ErrorKind::usage,
                fmt::format("{}: drafts of the method {} are computed on the CPU only: use "
                            "--device cpu, or the method ngram or suffix",
                            kFlag, method));
}

// What of its files is read two ways, said once.
void report_reading(const ProposerSetup& setup, const ModelProposer& proposer) {
    const std::vector<int64_t>& layers = proposer.target_states().layers;
    if (layers.empty()) return;
    const bool is_done = setup.reading.aux_layers == AuxLayerNumbering::layers_done;
    log_info(fmt::format("{}: states after {} layers are fused (aux_layer_numbering is {})",
                         setup.model.directory.string(), fmt::join(layers, ", "),
                         is_done ? "layers_done" : "behind_layer"));
}

// As many as drafts mostly pay for: more of them cost memory and time.
constexpr int32_t kMostStates = 16;

void keep_states(const EngineConfig& config, DraftChoice& choice) {
    choice.num_states = std::min(kMostStates, config.scheduling.scheduler.max_num_seqs);
    choice.speculation.max_sequences = choice.num_states;
}

void add_states(const DraftChoice& drafts, const ModelMetadata& model, MemoryRequest& request) {
    if (drafts.num_states == 0) return;
    WorkerConfig worker;
    worker.activations = model.activations;
    worker.num_draft_states = drafts.num_states;
    worker.most_drafts = drafts.speculation.most_drafts();
    request.scratch_bytes += DraftStates::journal_bytes(*model.model, worker, model.device);
    for (const CacheLayout& group : model.kv_groups) {
        request.scratch_bytes += static_cast<uint64_t>(drafts.num_states) *
                                 static_cast<uint64_t>(group.bytes_per_state());
    }
}

bool has_same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
    std::error_code ignored;
    const uintmax_t bytes = std::filesystem::file_size(one, ignored);
    if (ignored || bytes != std::filesystem::file_size(other, ignored) || ignored) return false;
    return read_file(one, kMaxTokenizerBytes) == read_file(other, kMaxTokenizerBytes);
}

}  // namespace

DraftChoice choose_drafts(const EngineConfig& config, const ModelLoadOptions& target,
                          const ModelMetadata& model) {
    const SpeculationSettings settings = speculation_settings(config.speculation);
    DraftChoice choice{settings.config, {}, nullptr};
    if (choice.speculation.enabled() && have_states(model.kv_groups)) keep_states(config, choice);
    if (!settings.config.by_worker) return choice;
    const std::filesystem::path folder = folder_of(config, settings.draft_model, target);
    if (choice.speculation.method.empty()) {
        choice.speculation.method = proposer_method_of(folder);
    }
    check_device(model, choice.speculation.method);
    ProposerSetup& setup = choice.setup;
    setup.method = choice.speculation.method;
    setup.model.directory = folder;
    setup.model.dtype = target.dtype;
    setup.model.num_threads = target.num_threads;
    setup.model.prefetch = target.prefetch;
    setup.model.repack_cache = target.repack_cache;
    setup.target_directory = target.directory;
    setup.shape = {choice.speculation.num_speculative_tokens, choice.speculation.tree_width};
    setup.reading = settings.reading;
    choice.proposer = make_proposer(setup, model.config, ProposerUse::plans);
    groups_of_target(model.kv_groups, choice.proposer->kv_groups());
    report_reading(setup, *choice.proposer);
    return choice;
}

std::vector<int64_t> draft_bytes_per_token(const DraftChoice& drafts, const ModelMetadata& model,
                                           DType kv_dtype) {
    if (drafts.proposer == nullptr) return {};
    const std::vector<CacheLayout>& groups = drafts.proposer->kv_groups();
    const std::vector<size_t> of_target = groups_of_target(model.kv_groups, groups);
    std::vector<int64_t> bytes(model.kv_groups.size(), 0);
    for (size_t group = 0; group < groups.size(); ++group) {
        bytes[of_target[group]] += groups[group].bytes_per_token(kv_dtype);
    }
    return bytes;
}

void add_drafts(const DraftChoice& drafts, const ModelMetadata& model, MemoryRequest& request) {
    add_states(drafts, model, request);
    if (drafts.proposer == nullptr) return;
    request.weight_bytes += drafts.proposer->weight_bytes();
    request.scratch_bytes += DraftRunner::scratch_bytes(
        *drafts.proposer, model.config.hidden_size,
        {request.max_num_batched_tokens, Worker::max_logit_rows(request.max_num_seqs),
         model.num_threads, model.device, model.activations},
        request.max_num_seqs, drafts.setup.shape.width);
    const int64_t tails = int64_t{request.max_num_seqs} * request.block_size *
                          tail_blocks(drafts.setup.shape.num_rows(), request.block_size);
    for (const CacheLayout& group : drafts.proposer->kv_groups()) {
        request.scratch_bytes +=
            static_cast<uint64_t>(tails * group.bytes_per_token(request.kv_dtype));
    }
}

void check_vocabulary(const DraftChoice& drafts, const Tokenizer& target,
                      const std::filesystem::path& target_directory) {
    const ProposerMethod* const method = find_proposer_method(drafts.setup.method);
    if (method == nullptr || !method->has_own_texts) return;
    const std::filesystem::path& folder = drafts.setup.model.directory;
    if (has_same_file(folder / "tokenizer.json", target_directory / "tokenizer.json")) return;
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {}; a draft model needs the vocabulary of the model that it "
                                "drafts for ({})",
                                folder.string(), why, target_directory.string()));
    };
    const std::shared_ptr<const Tokenizer> own = Tokenizer::load(folder);
    if (own == nullptr) refuse("has no tokenizer");
    if (std::abs(own->vocab_size() - target.vocab_size()) > kMostFurtherTokens) {
        refuse(
            fmt::format("has {} tokens, and the model {}", own->vocab_size(), target.vocab_size()));
    }
    const int32_t both = std::min(own->vocab_size(), target.vocab_size());
    for (int32_t id = 0; id < both; ++id) {
        if (own->token_text(id) == target.token_text(id)) continue;
        refuse(fmt::format("token {} is '{}', and the model's is '{}'", id, own->token_text(id),
                           target.token_text(id)));
    }
}

}  // namespace nvllm
