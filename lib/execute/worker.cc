// Carries out a plan: move blocks, update sequences, compute, sample.
#include "lib/execute/worker.h"

#include <algorithm>
#include <chrono>

#include "kernels/backend.h"
#include "kernels/host/thread_pool.h"
#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

// Logits of so many rows exist at one time, whatever the batch: 64 rows of a vocabulary of 128,256
// are 33 MB.
constexpr int64_t kLogitRows = 64;
// And so many may, however few sequences run: scoring a prompt reads the output matrix once for so
// many tokens.
constexpr int64_t kMinLogitRows = 16;

// One more in each group where steps are filled up to a graph's shape.
std::vector<int32_t> with_filler_block(const WorkerConfig& config, const ComputeDevice& device) {
    std::vector<int32_t> num_blocks = config.num_blocks;
    if (device.is_cpu() || config.max_graph_rows == 0) return num_blocks;
    for (int32_t& blocks : num_blocks) ++blocks;
    return num_blocks;
}

// The same, and slots for states that drafts are tried on.
std::vector<int32_t> all_blocks(const std::vector<CacheLayout>& groups, const WorkerConfig& config,
                                const ComputeDevice& device) {
    std::vector<int32_t> num_blocks = with_filler_block(config, device);
    for (size_t group = 0; group < groups.size(); ++group) {
        if (!groups[group].is_state()) continue;
        num_blocks[group] += config.num_draft_states;
    }
    return num_blocks;
}

// Of a model on one rank.
std::unique_ptr<BlockFiles> make_files(const std::vector<CacheLayout>& groups,
                                       const WorkerConfig& config, const KvStorage& kv) {
    if (config.disk_folder.empty()) return nullptr;
    std::vector<BlockFileLayout> layouts;
    for (const CacheLayout& group : groups) {
        layouts.push_back(
            block_file_layout(group, config.block_size, config.kv_dtype, whole_share(group)));
    }
    return std::make_unique<BlockFiles>(
        config.disk_folder, std::move(layouts),
        [&kv](int32_t group, HostBlockId block) { return kv.host_block(group, block); });
}

std::unique_ptr<AdapterStore> make_store(std::unique_ptr<const LoraTargets> targets,
                                         const WorkerConfig& config, const ComputeDevice& device) {
    if (targets == nullptr || config.adapters.max_loras == 0) return nullptr;
    return std::make_unique<AdapterStore>(std::move(targets), config.adapters, config.activations,
                                          device);
}

std::vector<ops::LoraLinear> linears_of(const LoraTargets* targets, const WorkerConfig& config) {
    if (targets == nullptr || config.adapters.max_loras == 0) return {};
    return largest_linears(*targets, config.adapters.max_loras, config.adapters.max_rank);
}

bool can_sample_on(const ComputeDevice& device) {
    return !device.is_cpu() && DeviceSampler::is_possible_on(device);
}

// Copies blocks as the plan says; counts the bytes between device and host and their time.
void move_blocks(const Context& context, const BatchPlan& plan, KvStorage& kv,
                 std::optional<DraftRunner>& drafts, StepResult& result) {
    const auto begin = std::chrono::steady_clock::now();
    kv.copy_blocks(context, plan.moves);
    if (!plan.num_blocks.empty()) kv.use_first(plan.num_blocks);
    result.swapped_bytes += kv.swap_out(context, plan.swaps_out);
    kv.copy_blocks(context, plan.copies);
    result.swapped_bytes += kv.swap_in(context, plan.swaps_in);
    if (drafts) result.swapped_bytes += drafts->move_blocks(context, plan);
    if (result.swapped_bytes == 0) return;
    ComputeDevice(context).synchronize(context.stream);
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - begin;
    result.swap_ms = passed.count();
}

// A process that watches over this one expects a step to end soon.
constexpr std::chrono::milliseconds kLongestWait{20};

// Extras are in the order of the entries.
void add_next_drafts(StepInFlight& step) {
    std::vector<StepExtras>& extras = step.result.extras;
    for (auto& [entry, drafts] : step.next_drafts) {
        const auto index = static_cast<uint32_t>(entry);
        auto place = std::ranges::lower_bound(extras, index, {}, &StepExtras::entry);
        if (place == extras.end() || place->entry != index) {
            place = extras.insert(
                place, StepExtras{.entry = index, .accepted_rows = {}, .next_drafts = {}});
        }
        place->next_drafts = std::move(drafts);
    }
}

}  // namespace

int64_t Worker::max_logit_rows(int32_t max_num_seqs) {
    return std::clamp<int64_t>(max_num_seqs, kMinLogitRows, kLogitRows);
}

size_t Worker::scratch_bytes(Model& model, const LargestStep& step) {
    HostRows host(step.device);
    RowsUse use;
    use.hidden = [&](const Context& context, const ConstTensorView& hidden) {
        host.fetch(context, hidden);
    };
    if (!step.device.is_cpu()) use.logits = DeviceSampler::kept_logits;
    return step_scratch_bytes(model, step, use);
}

Worker::Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads,
               const ComputeDevice& device, std::unique_ptr<ModelProposer> proposer,
               DraftShape drafts, DenseModules dense, RankRole role,
               std::unique_ptr<const LoraTargets> targets)
    : role_(std::move(role)),
      model_(std::move(model)),
      threads_(threads),
      device_(device),
      stream_(device),
      activations_(config.activations),
      block_size_(config.block_size),
      scratch_(
          scratch_bytes(*model_, {config.max_num_batched_tokens,
                                  max_logit_rows(config.max_num_seqs), threads.num_threads(),
                                  device, config.activations, linears_of(targets.get(), config)}),
          device),
      kv_(model_->kv_groups(), all_blocks(model_->kv_groups(), config, device),
          config.num_host_blocks, config.block_size, config.kv_dtype, device),
      adapters_(make_store(std::move(targets), config, device)),
      files_(make_files(model_->kv_groups(), config, kv_)),
      sequences_(model_->kv_groups().size(), model_->original_context() > 0, can_sample_on(device),
                 adapters_.get()),
      runner_(*model_, config, max_logit_rows(config.max_num_seqs), device, adapters_.get()),
      host_(device),
      pooler_(*model_, host_, max_logit_rows(config.max_num_seqs), std::move(dense)),
      logits_(device, threads, sequences_, runner_, host_),
      expert_use_(config.reports_expert_load) {
    if (config.num_draft_states > 0) {
        states_.emplace(*model_, config, with_filler_block(config, device), kv_, device);
    }
    if (proposer != nullptr) {
        drafts_.emplace(std::move(proposer), *model_, config, drafts, threads);
    }
    if (device.is_cpu()) return;
    device.backend()->set_batch_invariant(device.id().index, config.batch_invariant);
}

// Nothing that it owns is in use when it is freed.
Worker::~Worker() {
    try {
        device_.synchronize(stream_.stream());
    } catch (const Error&) {  // a lost device uses nothing any more
    }
}

void Worker::reset() {
    device_.synchronize(stream_.stream());
    for (auto& step : in_flight_) free_.push_back(std::move(step));
    in_flight_.clear();
    unsettled_.clear();
    sequences_.clear();
    if (states_) states_->clear();
    if (adapters_ != nullptr) adapters_->clear(stream_.stream());
    if (files_ != nullptr) files_->clear();
}

Context Worker::make_context() {
    // Scratch that grew frees memory, which a step in flight may use.
    if (scratch_.num_growths() != num_growths_) device_.synchronize(stream_.stream());
    num_growths_ = scratch_.num_growths();
    scratch_.reset();
    Context context{.device = device_.id(), .scratch = &scratch_, .threads = &threads_};
    context.stream = stream_.stream();
    context.backend = device_.backend();
    context.activations = activations_;
    if (role_.groups != nullptr) {
        context.tensor_ranks = role_.groups->tensor();
        context.expert_ranks = role_.groups->experts();
        context.pipeline = role_.groups->pipeline();
    }
    if (device_.is_cpu()) return context;
    host_scratch_.reset();
    context.host_scratch = &host_scratch_;
    return context;
}

// The step that was finished first is used first: the stream is furthest from it.
StepInFlight& Worker::next_step() {
    if (free_.empty()) {
        free_.push_back(std::make_unique<StepInFlight>(device_));
        runner_.expect_steps(in_flight_.size() + 1);
    }
    free_.front()->clear();
    return *free_.front();
}

void Worker::begin(const BatchPlan& plan) {
    fault_point("worker.step");
    const auto begin = std::chrono::steady_clock::now();
    const std::chrono::nanoseconds waited = time_with_others();
    const Context context = make_context();
    const PlanExtras extras(plan, static_cast<int32_t>(model_->config().vocab_size));
    StepInFlight& step = next_step();
    StepResult& result = step.result;
    result.plan_number = plan.number;
    move_blocks(context, plan, kv_, drafts_, result);
    if (files_ != nullptr) move_files(plan, result);
    prepare_adapters(plan, result);
    sequences_.update(plan);
    result.sequences.resize(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        result.sequences[i].sequence = plan.entries[i].sequence;
    }
    if (!role_.chooses && plan.num_draft_tokens() > 0) unsettled_.push_back(plan);
    compute(context, plan, extras, step);
    const std::chrono::duration<double, std::milli> busy =
        std::chrono::steady_clock::now() - begin - (time_with_others() - waited);
    result.busy_ms = busy.count();
    step.done.record(context.stream);
    in_flight_.push_back(std::move(free_.front()));
    free_.pop_front();
}

// The copies that fill host blocks, or read them, have ended: the stream was waited for.
void Worker::move_files(const BatchPlan& plan, StepResult& result) {
    files_->add(plan.disk_reads, plan.disk_writes);
    result.disk =
        files_->take_events(plan.awaits_disk ? kLongestWait : std::chrono::milliseconds());
}

void Worker::prepare_adapters(const BatchPlan& plan, StepResult& result) {
    if (adapters_ == nullptr) return;
    adapters_->begin(plan.adapters, stream_.stream());
    for (const AddedSequence& added : plan.added) {
        if (added.adapter > 0) adapters_->await(added.adapter, stream_.stream());
    }
    if (plan.awaits_adapters) adapters_->await_any(kLongestWait, stream_.stream());
    result.adapters = adapters_->take_events();
}

void Worker::compute(const Context& context, const BatchPlan& plan, const PlanExtras& extras,
                     StepInFlight& step) {
    ForwardContext batch = runner_.lay_out(context, plan, extras, sequences_, kv_.layers());
    if (plan.entries.empty()) return;
    if (drafts_) batch.aux_hidden = drafts_->expect(context, batch.tokens());
    if (states_) batch.journal = states_->begin(context, runner_.rows());
    const ComputedStep computed = runner_.forward(batch, step.result.device);
    if (!role_.is_last_stage) return;
    pooler_.pool(batch, computed.hidden, plan, sequences_, step.result);
    if (!role_.chooses) return logits_.compute(batch, computed, plan, extras, step);
    logits_.use(batch, computed, plan, extras, step);
    if (device_.is_cpu()) {
        for (const auto& [index, path] : step.paths) {
            move_accepted(context, plan.entries[index], extras.drafts(index).size(), path.rows);
        }
    }
    batch.context = &context;  // drafts are those of the model alone
    if (drafts_) drafts_->propose(batch, computed.hidden, plan, extras, sequences_, step);
}

// In the order of the positions: no slot is overwritten that is still to be read, because no draft
// lies before the slot of its position.
void Worker::move_accepted(const Context& context, const PlanEntry& entry, int32_t num_drafts,
                           std::span<const int32_t> rows) {
    std::vector<SlotMove> moves;
    const int32_t root = entry.first + entry.count - 1 - num_drafts;
    const auto& tables = sequences_.at(entry.sequence).block_tables;
    for (int32_t group = 0; group < std::ssize(tables); ++group) {
        const std::vector<int32_t>& table = tables[static_cast<size_t>(group)];
        const auto slot_of = [&](int32_t row) {
            const int64_t block = table[static_cast<size_t>((root + row) / block_size_)];
            return block * block_size_ + (root + row) % block_size_;
        };
        for (int32_t depth = 1; depth <= std::ssize(rows); ++depth) {
            const int32_t row = rows[static_cast<size_t>(depth - 1)];
            if (row != depth) moves.push_back({group, slot_of(row), slot_of(depth)});
        }
    }
    if (!moves.empty()) kv_.move_slots(context, moves);
}

StepResult Worker::finish() {
    NVLLM_CHECK(!in_flight_.empty(), "no step was begun");
    free_.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
    StepInFlight& step = *free_.back();
    if (in_flight_.empty()) {
        device_.synchronize(stream_.stream());
    } else {
        step.done.await();
    }
    step.result.rank_bytes = bytes_sent() - counted_bytes_;
    counted_bytes_ += step.result.rank_bytes;
    expert_use_.report(*model_, step.result);
    if (!role_.chooses) {
        StepResult done = std::move(step.result);
        done.sequences.clear();
        return done;
    }
    logits_.finish(step);
    if (states_ && states_->is_open()) states_->settle(make_context(), step.result);
    add_next_drafts(step);
    sequences_.accept(step.result);
    return std::move(step.result);
}

StepResult Worker::take_part() {
    NVLLM_CHECK(in_flight_.empty(), "a step of others comes between steps");
    model_->take_part(make_context());
    return {};
}

void Worker::settle(const StepResult& result) {
    NVLLM_CHECK(!role_.chooses, "a rank that chooses knows what it chose");
    if (states_ && states_->is_open()) states_->settle(make_context(), result);
    if (!unsettled_.empty() && unsettled_.front().number == result.plan_number) {
        const BatchPlan plan = std::move(unsettled_.front());
        unsettled_.pop_front();
        const PlanExtras extras(plan, static_cast<int32_t>(model_->config().vocab_size));
        const Context context = make_context();
        for (const StepExtras& extra : result.extras) {
            const PlanEntry& entry = plan.entries[extra.entry];
            if (sequences_.find(entry.sequence) == nullptr) continue;
            move_accepted(context, entry, extras.drafts(extra.entry).size(), extra.accepted_rows);
        }
    }
    sequences_.accept(result);
}

}  // namespace nvllm
