// Observe a block, solve it, keep it, let its successor see what it gives now.
#include "lib/quantize/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "kernels/host/cpu_placement.h"
#include "lib/base/digest.h"
#include "lib/base/fault_points.h"
#include "lib/base/json.h"
#include "lib/base/random.h"
#include "lib/quantize/activation_store.h"
#include "lib/quantize/source_check.h"
#include "lib/quantize/verification.h"
#include "lib/system/memory_info.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::quantize {
namespace {

void check_stop(const PipelineEvents& events) {
    if (events.is_stopped && events.is_stopped()) throw Stopped{};
}

// Of the header and of a few places of every tensor: other weights in the same shapes are told
// apart without reading all of them. A few changed values are seen by the file's time alone.
uint64_t digest_of_samples(const SafetensorsFile& file) {
    constexpr uint64_t kSampleBytes = 1024;
    constexpr uint64_t kSamples = 16;
    const std::byte* const bytes = file.bytes().data();
    uint64_t sum = digest(nullptr, 0);
    uint64_t data_begin = file.bytes().size();
    for (const SafetensorsEntry& entry : file.entries()) {
        const uint64_t distance =
            std::max(kSampleBytes, (entry.end - entry.begin + kSamples - 1) / kSamples);
        for (uint64_t begin = entry.begin; begin < entry.end; begin += distance) {
            sum = digest(bytes + begin, std::min(kSampleBytes, entry.end - begin), sum);
        }
        data_begin = std::min(data_begin, entry.begin);
    }
    return digest(bytes, data_begin, sum);
}

// When the file was written last, in ticks of the system's own.
int64_t time_of(const std::filesystem::path& file) {
    return std::filesystem::last_write_time(file).time_since_epoch().count();
}

// What a recipe that needs no text is checked with.
std::vector<int32_t> any_tokens(int32_t vocab_size) {
    constexpr uint32_t kCount = 32;
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < kCount; ++i) {
        const auto words = philox({i, 0, 0, 0}, philox_key(0));
        tokens.push_back(static_cast<int32_t>(words[0] % static_cast<uint32_t>(vocab_size)));
    }
    return tokens;
}

CalibrationSet read_calibration(const PipelineOptions& options, const HookedModel& model) {
    const auto tokenizer = Tokenizer::load(options.model);
    if (tokenizer == nullptr) {
        throw Error(ErrorKind::not_found,
                    fmt::format("{}: has no tokenizer, which calibration text needs; --method rtn "
                                "needs no text",
                                options.model.string()));
    }
    const ModelConfig& config = model.model().config();
    CalibrationOptions calibration = options.calibration;
    calibration.max_seq_length = std::min(calibration.max_seq_length, config.max_positions);
    CalibrationSet set = make_calibration_set(calibration, *tokenizer, config.model_type);
    for (const std::vector<int32_t>& sample : set.samples) {
        const auto bad = std::find_if(sample.begin(), sample.end(), [&](int32_t token) {
            return token < 0 || token >= config.vocab_size;
        });
        if (bad == sample.end()) continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: its tokenizer knows token {}, but the model has {} only",
                                options.model.string(), *bad, config.vocab_size));
    }
    return set;
}

}  // namespace

Pipeline::~Pipeline() = default;

Pipeline::Pipeline(PipelineOptions options, Recipe recipe)
    : options_(std::move(options)),
      threads_(options_.num_threads > 0 ? options_.num_threads : default_num_threads()),
      model_(options_.model, threads_, options_.compute_type),
      plan_(std::move(recipe), model_) {
    bool needs_text = needs_calibration(plan_.recipe());
    for (size_t i = 0; i < model_.linears().size(); ++i) {
        needs_text = needs_text || plan_.linear(i).static_inputs() != nullptr;
    }
    if (needs_text) calibration_ = read_calibration(options_, model_);
    plan_resources();
}

std::vector<size_t> Pipeline::linears_of_stage(int32_t stage) const {
    return is_block(stage) ? model_.linears_of(stage) : model_.linears_of(std::nullopt);
}

bool Pipeline::is_needed(int32_t stage) const {
    if (plan_.rotation() != nullptr) return true;
    const std::vector<size_t> linears = linears_of_stage(stage);
    return std::any_of(linears.begin(), linears.end(),
                       [&](size_t linear) { return changes(linear); });
}

bool Pipeline::changes(size_t linear) const {
    return plan_.linear(linear).is_rewritten() || model_.is_stored_otherwise(linear);
}

// Blocks are run whatever changes in them; what lies behind them only when it is told of.
bool Pipeline::sees_any(int32_t stage) const {
    const std::vector<size_t> linears = linears_of_stage(stage);
    return is_block(stage) || std::any_of(linears.begin(), linears.end(), [&](size_t linear) {
               return plan_.linear(linear).is_changed();
           });
}

std::vector<std::string> Pipeline::notes() const {
    std::vector<std::string> notes = plan_.notes();
    if (model_.quantization() == nullptr) return notes;
    notes.push_back(
        fmt::format("{}: its weights are quantized already ({}); they are dequantized "
                    "first, and what was lost stays lost",
                    options_.model.string(), model_.quantization()->format()));
    if (model_.quantization()->kv_cache_scheme() && !plan_.kv_cache_scheme()) {
        notes.emplace_back(
            "its kv_cache_scheme is left out; --kv-cache-scheme fp8 makes a new one");
    }
    return notes;
}

size_t Pipeline::num_changed() const {
    size_t count = 0;
    for (size_t i = 0; i < model_.linears().size(); ++i) count += changes(i) ? 1 : 0;
    return count;
}

// Everything that decides over the result.
std::string Pipeline::identity() const {
    nlohmann::ordered_json object = {{"schema", "nvllm-quantize.run/1"},
                                     {"version", options_.version},
                                     {"recipe", recipe_json(plan_.recipe())},
                                     {"compresses_zeros", plan_.recipe().compresses_zeros},
                                     {"product_type", dtype_name(model_.compute_type())},
                                     {"propagates_error", options_.propagates_error}};
    object["config_digest"] =
        digest(model_.model().config().raw_json.data(), model_.model().config().raw_json.size());
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const auto& file : model_.checkpoint().files()) {
        files.push_back({{"name", file->path().filename().string()},
                         {"bytes", file->bytes().size()},
                         {"modified", time_of(file->path())},
                         {"digest", digest_of_samples(*file)}});
    }
    object["files"] = std::move(files);
    if (calibration_) {
        uint64_t sum = digest(nullptr, 0);
        for (const std::vector<int32_t>& sample : calibration_->samples) {
            sum = digest(sample.data(), sample.size() * sizeof(int32_t), sum);
        }
        object["calibration_digest"] = sum;
        object["calibration_tokens"] = calibration_->num_tokens;
    }
    return write_json(object) + "\n";
}

void Pipeline::watch(const std::vector<size_t>& linears) {
    statistics_.clear();
    const bool scales =
        std::any_of(plan_.recipe().modifiers.begin(), plan_.recipe().modifiers.end(),
                    [](const Modifier& modifier) { return find_method(modifier.method).scales; });
    for (const size_t index : linears) {
        const ObservedLinear& linear = model_.linears()[index];
        const LinearPlan& plan = plan_.linear(index);
        if (!plan.is_changed() && !scales) continue;
        // The error of the output is told wherever there is text to measure it with.
        statistics_.watch(linear.site, linear.name.in, true);
        if (const QuantizationArguments* const inputs = plan.static_inputs()) {
            statistics_.watch_ranges(linear.site, inputs->range_share.has_value());
        }
    }
}

// Runs all samples through a stage: on copies of the hidden states, or so that they become its
// result. What a block caches meanwhile is counted where `cached` is not null.
void Pipeline::run_samples(int32_t stage, bool in_place, CacheRanges* cached,
                           const PipelineEvents& events) {
    const int64_t hidden = model_.model().config().hidden_size;
    const Tensor copy =
        in_place ? Tensor() : Tensor::allocate(DType::f32, {calibration_->longest, hidden});
    for (size_t i = 0; i < calibration_->samples.size(); ++i) {
        check_stop(events);
        statistics_.next_sample();
        TensorView rows = activations_->sample(i);
        if (!in_place) {
            const TensorView target = copy.mutable_view().rows(0, rows.dim(0));
            std::memcpy(target.data, rows.data, static_cast<size_t>(rows.numel()) * sizeof(float));
            rows = target;
        }
        if (is_block(stage)) {
            forward_->block(stage, calibration_->samples[i], rows);
            if (cached != nullptr) forward_->add_cached(stage, rows.dim(0), *cached);
        } else {
            forward_->logits(calibration_->samples[i], rows,
                             [](int64_t, const ConstTensorView&) {});
        }
        activations_->release(i);
        work_done_ += 1.0;
        if (events.progress) {
            const double all =
                2.0 * num_stages() * static_cast<double>(calibration_->samples.size());
            events.progress(std::min(1.0, work_done_ / all));
        }
    }
}

void Pipeline::observe(int32_t stage, const PipelineEvents& events) {
    watch(linears_of_stage(stage));
    model_.set_observer(&statistics_);
    // Without propagated error the dense block's own result is what comes next.
    if (scales_cache(stage)) {
        const bool by_sample = plan_.kv_cache_scheme()->range_share.has_value();
        cached_ = forward_->cache_ranges(stage, by_sample);
    }
    run_samples(stage, !options_.propagates_error && is_block(stage),
                scales_cache(stage) ? &cached_ : nullptr, events);
    model_.set_observer(nullptr);
    statistics_.finish(forward_->context());
    for (const size_t linear : linears_of_stage(stage)) {
        const SiteStatistics* const statistics = statistics_.of(model_.linears()[linear].site);
        if (statistics == nullptr || statistics->is_finite()) continue;
        throw Error(
            ErrorKind::bad_data,
            fmt::format("inputs of {} are not finite numbers; does the model work with this "
                        "calibration text?",
                        model_.linears()[linear].name.name));
    }
}

void Pipeline::propagate(int32_t stage, const SolvedBlock& block, const PipelineEvents& events) {
    if (!is_block(stage)) return;
    for (const SolvedLinear& solved : block.linears) {
        if (options_.propagates_error)
            model_.replace(solved.linear, effective_weight(solved, model_, plan_));
    }
    run_samples(stage, true, nullptr, events);
    for (const SolvedLinear& solved : block.linears) model_.restore(solved.linear);
}

SolvedBlock Pipeline::block_of_stage(int32_t stage, const PipelineEvents& events,
                                     PipelineResult& result) {
    SolvedBlock block;
    const bool is_kept = journal_->has_block(stage);
    if (is_kept) {
        check_block(journal_->block_file(stage));
        block = load_block(journal_->block_file(stage), model_, plan_);
        ++result.num_resumed;
        num_done_ += block.linears.size();
    } else {
        if (is_block(stage)) check_finite(model_.checkpoint(), stage, threads_);
        if (calibration_ && sees_any(stage)) observe(stage, events);
        const BlockTask task{model_,
                             plan_,
                             statistics_,
                             forward_->context(),
                             scales_cache(stage) ? &cached_ : nullptr,
                             [&](const LinearRecord& record) {
                                 check_stop(events);
                                 ++num_done_;
                                 if (!events.linear_done) return;
                                 events.linear_done(record, num_done_, num_changed());
                             }};
        block = solve_block(task, linears_of_stage(stage),
                            is_block(stage) ? std::optional(stage) : std::nullopt);
        statistics_.clear();
        fault_point("quantize.block", stage);
        save_block(block, journal_->block_file(stage));
    }
    const bool is_last =
        stage + 1 >= num_stages() || (stage + 2 == num_stages() && !sees_any(stage + 1));
    const bool has_moved_on = !is_kept && !options_.propagates_error;
    if (calibration_ && !is_last && !has_moved_on) propagate(stage, block, events);
    for (const SolvedLinear& solved : block.linears) result.linears.push_back(solved.record);
    if (is_block(stage)) model_.release_block(stage);
    return block;
}

bool Pipeline::finish_published() const {
    return options_.interrupted == InterruptedRun::resumed &&
           Journal::finish_published(options_.output, identity());
}

PipelineResult Pipeline::run(const PipelineEvents& events) {
    check_finite(model_.checkpoint(), std::nullopt, threads_);
    journal_.emplace(options_.output, identity(), options_.interrupted);
    PipelineResult result;
    const int64_t longest = calibration_ ? calibration_->longest : 1;
    forward_ = std::make_unique<BlockForward>(model_.model(), threads_, longest);
    if (calibration_) {
        const std::filesystem::path spill = !resources_.spills ? std::filesystem::path()
                                            : options_.offload_folder.empty()
                                                ? journal_->folder()
                                                : options_.offload_folder;
        activations_ = std::make_unique<ActivationStore>(
            calibration_->samples, model_.model().config().hidden_size, spill);
        for (size_t i = 0; i < calibration_->samples.size(); ++i) {
            forward_->embed(calibration_->samples[i], activations_->sample(i));
        }
    }
    for (int32_t stage = 0; stage < num_stages(); ++stage) {
        check_stop(events);
        if (stage + 1 == num_stages() && !is_needed(stage)) break;
        block_of_stage(stage, events, result);
    }
    activations_.reset();
    forward_.reset();
    write_output(result);
    verify_output(result);
    return result;
}

void Pipeline::write_output(PipelineResult& result) {
    Replacement replacement;
    std::vector<int32_t> stages;
    for (int32_t stage = 0; stage < num_stages(); ++stage) {
        if (journal_->has_block(stage)) stages.push_back(stage);
    }
    const auto load = [&](size_t block) {
        return load_block(journal_->block_file(stages[block]), model_, plan_);
    };
    replacement.num_blocks = stages.size();
    replacement.tensors = [&](size_t block) { return stored_tensors(load(block), model_, plan_); };
    for (size_t i = 0; i < stages.size(); ++i) {
        const SolvedBlock block = load(i);
        for (const SolvedLinear& solved : block.linears) {
            const LinearSpec& name = model_.linears()[solved.linear].name;
            if (!name.tied_to.empty()) continue;  // the embedding stays
            for (std::string& stored : model_.stored_names(solved.linear)) {
                replacement.replaced.insert(std::move(stored));
            }
        }
        for (const NamedTensor& other : block.others) replacement.replaced.insert(other.name);
    }
    unpublished_ = journal_->fresh_output_folder();
    result.sizes =
        write_weights(model_.checkpoint(), replacement, unpublished_, options_.shard_bytes);
    write_config(options_.model, unpublished_,
                 plan_.quantizes() ? std::optional(plan_.config(model_)) : std::nullopt,
                 plan_.unties(model_));
    copy_companions(options_.model, unpublished_);
}

void Pipeline::verify_output(PipelineResult& result) {
    constexpr size_t kMaxTokens = 32;
    std::vector<int32_t> tokens = calibration_ ? calibration_->samples.front()
                                               : any_tokens(model_.model().config().vocab_size);
    tokens.resize(std::min(tokens.size(), kMaxTokens));
    const WrittenModel written{unpublished_, [&](int32_t block) -> std::optional<SolvedBlock> {
                                   if (!journal_->has_block(block)) return std::nullopt;
                                   return load_block(journal_->block_file(block), model_, plan_);
                               }};
    result.block_errors = verify_written(model_, plan_, written, tokens);
}

Report Pipeline::report(const PipelineResult& result) const {
    Report report;
    report.model = std::filesystem::absolute(options_.model / "").parent_path().filename().string();
    report.recipe = write_json(recipe_json(plan_.recipe()));
    if (calibration_) report.calibration = calibration_->description;
    report.linears = result.linears;
    report.block_errors = result.block_errors;
    report.sizes = result.sizes;
    return report;
}

void Pipeline::publish() { journal_->publish(); }

}  // namespace nvllm::quantize
