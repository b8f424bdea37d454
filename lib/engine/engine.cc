// Start of an engine and its loop.
#include "lib/engine/engine.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>
#include <variant>

#include "kernels/thread_pool.h"
#include "lib/base/file.h"
#include "lib/base/memory_info.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/engine/inspection.h"
#include "lib/engine/output_processor.h"
#include "lib/execute/worker.h"
#include "lib/model/loader.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;

// Nothing could be planned though work waits: our mistake, counted by the scheduler, which must not
// take a whole core as well.
constexpr std::chrono::milliseconds kStallPause{1};
constexpr uint64_t kLargestTemplate = uint64_t{4} << 20;

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void check_device(const std::string& device) {
    if (device == "auto" || device == "cpu") return;
    throw Error(
        ErrorKind::unavailable,
        fmt::format("--device {}: this build has no such backend; use --device cpu", device));
}

ModelLoadOptions load_options(const EngineConfig& config, ThreadPool* threads) {
    ModelLoadOptions options;
    options.directory = resolve_model_directory(config.model);
    options.dtype = dtype_from_name(config.dtype);  // empty for auto
    options.refuses_quantized = config.quantization == "none";
    options.load_format = config.load_format == "dummy" ? LoadFormat::dummy : LoadFormat::automatic;
    options.seed = config.load_seed;
    options.threads = threads;
    options.num_threads = config.threads;
    return options;
}

// What has no brace cannot be a template that says anything, so it must be a file.
std::string read_chat_template(const std::string& given) {
    if (given.empty() || given.find('{') != std::string::npos) return given;
    return read_file(given, kLargestTemplate);
}

// A size in bytes is counted in keys and values of all layers together.
int32_t block_tokens(const BlockSize& size, const ModelOutline& outline) {
    int64_t bytes_per_token = 0;
    for (const KvGroup& group : outline.kv_groups) {
        bytes_per_token += group.bytes_per_token(outline.product_type);
    }
    return size.in_tokens(std::max<int64_t>(bytes_per_token, 1));
}

MemoryRequest memory_request(const EngineConfig& config, const ModelOutline& outline) {
    MemoryRequest request;
    request.weight_bytes = outline.weight_bytes;
    request.scratch_bytes = outline.scratch(config.max_num_batched_tokens,
                                            Worker::most_logit_rows(config.max_num_seqs));
    request.available_bytes = available_memory_bytes();
    request.kv_cache_bytes = config.kv_cache_memory_bytes;
    request.limit_bytes = config.memory_limit_bytes;
    request.utilization = config.memory_utilization;
    request.max_blocks = config.max_blocks;
    request.swap_bytes = config.swap_space_bytes;
    request.max_model_len = config.max_model_len;
    request.model_max_positions = outline.config.max_positions;
    request.max_num_seqs = config.max_num_seqs;
    request.max_num_batched_tokens = config.max_num_batched_tokens;
    request.block_size = block_tokens(config.block_size, outline);
    request.kv_dtype = outline.product_type;
    request.groups = outline.kv_groups;
    return request;
}

CacheConfig cache_config(const EngineConfig& config, const MemoryPlan& plan,
                         const std::vector<KvGroup>& groups) {
    CacheConfig cache;
    cache.block_size = plan.block_size;
    cache.enable_prefix_caching = config.enable_prefix_caching;
    for (size_t g = 0; g < groups.size(); ++g) {
        cache.groups.push_back({plan.num_blocks[g], static_cast<int32_t>(groups[g].window),
                                plan.num_host_blocks.empty() ? 0 : plan.num_host_blocks[g]});
    }
    cache.eviction = config.eviction_policy;
    return cache;
}

SchedulerConfig scheduler_config(const EngineConfig& config, const MemoryPlan& plan) {
    SchedulerConfig scheduler;
    scheduler.max_num_seqs = config.max_num_seqs;
    scheduler.max_num_batched_tokens = config.max_num_batched_tokens;
    scheduler.max_model_len = plan.max_model_len;
    scheduler.enable_chunked_prefill = config.enable_chunked_prefill;
    scheduler.chunk_size = config.prefill_chunk_size;
    scheduler.max_num_partial_prefills = config.max_num_partial_prefills;
    scheduler.step_time_target_ms = config.step_time_target_ms;
    scheduler.policy = config.scheduling_policy;
    scheduler.preemption_mode = config.preemption_mode;
    scheduler.block_bytes = plan.block_bytes();
    scheduler.defrag_threshold = config.defrag_threshold;
    return scheduler;
}

WorkerConfig worker_config(const EngineConfig& config, const MemoryPlan& plan, DType kv_dtype) {
    WorkerConfig worker;
    worker.block_size = plan.block_size;
    worker.num_blocks = plan.num_blocks;
    worker.num_host_blocks = plan.num_host_blocks;
    worker.max_num_batched_tokens = config.max_num_batched_tokens;
    worker.max_num_seqs = config.max_num_seqs;
    worker.kv_dtype = kv_dtype;
    return worker;
}

}  // namespace

// Everything the engine owns, and the thread that runs it.
class Engine::Loop {
  public:
    explicit Loop(const EngineConfig& config);
    ~Loop();

    Result<Request> prepare(const RequestInput& input) const { return input_->process(input); }
    RequestId submit(Request request, OutputListener listener);
    void cancel(RequestId id);
    void wait_idle();
    void resize_cache(double share);
    void stop();
    std::future<Snapshot> snapshot(SnapshotDetail detail);

    std::function<void(const StepRecord&)> step_listener;
    std::function<void(const Snapshot&)> snapshot_listener;
    uint64_t snapshot_step = 0;
    ModelConfig model_config;
    MemoryPlan plan;
    StartTimings timings;
    std::shared_ptr<const Tokenizer> tokenizer;
    const InputProcessor& input() const { return *input_; }
    EngineStats stats() const;

  private:
    struct Submitted {
        Request request;
        OutputListener listener;
    };
    struct Cancelled {
        RequestId id = 0;
    };
    struct Looked {
        SnapshotDetail detail = SnapshotDetail::full;
        std::promise<Snapshot> promise;
    };
    struct Resize {
        std::vector<int32_t> num_blocks;
        std::promise<void> done;
    };
    using Message = std::variant<Submitted, Cancelled, Resize, Looked>;

    double now_s() const { return milliseconds_since(started_) / 1000.0; }
    void run();
    // Takes what arrived; waits for it when there is nothing to do. False when the engine is to
    // end.
    bool take_messages();
    void start(Submitted& submitted);
    void refuse(const Request& request, const Fault& fault);
    void cancel_now(RequestId id);
    void resize();
    // One step of the loop; false when nothing could be planned.
    bool step();
    void commit(const StepResult& result, StepRecord& record);
    void observe(const BatchPlan& plan, const StepRecord& record);
    void fail_step(const BatchPlan& plan, const Fault& fault);
    // Hands out what is new of a request.
    void emit(RequestId request);
    void deliver(RequestOutput&& output);
    void publish_progress();
    Snapshot take_snapshot(SnapshotDetail detail) const;
    void answer(Looked& looked) const;

    Clock::time_point started_ = Clock::now();
    std::unique_ptr<ThreadPool> threads_;
    std::unique_ptr<InputProcessor> input_;
    std::unique_ptr<Worker> worker_;
    std::unique_ptr<CacheManager> cache_;
    std::unique_ptr<Scheduler> scheduler_;
    std::unique_ptr<OutputProcessor> output_;
    std::unordered_map<RequestId, OutputListener> listeners_;
    std::deque<Resize> resizes_;
    size_t num_delivered_ = 0;  // requests that ended since the last publish_progress()

    mutable std::mutex mutex_;
    std::condition_variable arrived_;
    std::condition_variable idle_;
    std::vector<Message> inbox_;
    uint64_t next_request_ = 1;
    size_t num_open_ = 0;  // submitted and not yet finished
    bool ending_ = false;
    EngineStats stats_;
    std::mt19937_64 seeds_{std::random_device{}()};

    std::string model_name_;
    std::thread thread_;
    std::unique_ptr<InspectionServer> inspection_;
};

Engine::Loop::Loop(const EngineConfig& config) {
    const Clock::time_point start = Clock::now();
    check_device(config.device);
    threads_ =
        std::make_unique<ThreadPool>(config.threads > 0 ? config.threads : usable_cpu_count());
    ModelLoadOptions options = load_options(config, threads_.get());
    const ModelOutline outline = outline_model(options);
    plan = make_memory_plan(memory_request(config, outline));
    options.checkpoint = outline.checkpoint;
    options.max_model_len = plan.max_model_len;
    model_config = outline.config;
    timings.config_ms = milliseconds_since(start);

    // The tokenizer reads and parses while the weights are mapped or converted.
    auto text = std::async(std::launch::async, [&] {
        const Clock::time_point begin = Clock::now();
        auto loaded = Tokenizer::load(options.directory);
        return std::pair(std::move(loaded), milliseconds_since(begin));
    });
    Clock::time_point phase = Clock::now();
    std::unique_ptr<Model> model = load_model(options);
    timings.weights_ms = milliseconds_since(phase);
    phase = Clock::now();
    cache_ = std::make_unique<CacheManager>(cache_config(config, plan, model->kv_groups()));
    scheduler_ = std::make_unique<Scheduler>(scheduler_config(config, plan), *cache_);
    worker_ = std::make_unique<Worker>(
        std::move(model), worker_config(config, plan, outline.product_type), *threads_);
    timings.worker_ms = milliseconds_since(phase);
    std::tie(tokenizer, timings.tokenizer_ms) = text.get();
    input_ = std::make_unique<InputProcessor>(
        tokenizer, model_config, read_generation_config(options.directory), plan.max_model_len,
        read_chat_template(config.chat_template));
    output_ = std::make_unique<OutputProcessor>(tokenizer);
    timings.total_ms = milliseconds_since(start);
    model_name_ = config.model;
    if (!config.inspect_socket.empty()) {
        inspection_ = std::make_unique<InspectionServer>(
            config.inspect_socket, [this](SnapshotDetail detail) { return snapshot(detail); });
    }
    thread_ = std::thread([this] { run(); });
}

Engine::Loop::~Loop() { stop(); }

void Engine::Loop::stop() {
    inspection_.reset();
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    arrived_.notify_all();
    if (thread_.joinable()) thread_.join();
    // Whoever waits for a snapshot, or for another size of the cache, is told that none comes.
    const std::lock_guard lock(mutex_);
    inbox_.clear();
    resizes_.clear();
}

std::future<Snapshot> Engine::Loop::snapshot(SnapshotDetail detail) {
    std::promise<Snapshot> promise;
    std::future<Snapshot> future = promise.get_future();
    const std::lock_guard lock(mutex_);
    if (ending_) return future;
    inbox_.emplace_back(Looked{detail, std::move(promise)});
    arrived_.notify_one();
    return future;
}

// Whoever looks in must not be the end of it, not even for want of memory.
void Engine::Loop::answer(Looked& looked) const {
    try {
        looked.promise.set_value(take_snapshot(looked.detail));
    } catch (...) {
        looked.promise.set_exception(std::current_exception());
    }
}

Snapshot Engine::Loop::take_snapshot(SnapshotDetail detail) const {
    Snapshot snapshot = scheduler_->snapshot(detail, now_s());
    snapshot.config.model = model_name_;
    return snapshot;
}

RequestId Engine::Loop::submit(Request request, OutputListener listener) {
    const std::lock_guard lock(mutex_);
    request.id = next_request_++;
    request.arrival_s = now_s();
    if (!request.sampling.seed) request.sampling.seed = seeds_();
    const RequestId id = request.id;
    inbox_.emplace_back(Submitted{std::move(request), std::move(listener)});
    ++num_open_;
    arrived_.notify_one();
    return id;
}

void Engine::Loop::cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    inbox_.emplace_back(Cancelled{id});
    arrived_.notify_one();
}

void Engine::Loop::wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return num_open_ == 0; });
}

void Engine::Loop::resize_cache(double share) {
    if (!(share > 0.0 && share <= 1.0)) {
        throw Error(ErrorKind::usage,
                    fmt::format("the cache can take a share of (0, 1] of its plan, not {}", share));
    }
    Resize resize;
    for (const int32_t planned : plan.num_blocks) {
        resize.num_blocks.push_back(std::max(1, static_cast<int32_t>(share * planned)));
    }
    std::future<void> done = resize.done.get_future();
    {
        const std::lock_guard lock(mutex_);
        if (ending_) throw Error(ErrorKind::unavailable, "the engine is ending");
        inbox_.emplace_back(std::move(resize));
        arrived_.notify_one();
    }
    try {
        done.get();
    } catch (const std::future_error&) {
        throw Error(ErrorKind::unavailable, "the engine ended before its cache was resized");
    }
}

void Engine::Loop::run() {
    while (take_messages()) {
        if (!step()) std::this_thread::sleep_for(kStallPause);
        publish_progress();
    }
}

bool Engine::Loop::take_messages() {
    std::vector<Message> messages;
    {
        std::unique_lock lock(mutex_);
        if (!scheduler_->has_work() && resizes_.empty()) {
            arrived_.wait(lock, [&] { return ending_ || !inbox_.empty(); });
        }
        if (ending_) return false;
        messages.swap(inbox_);
    }
    for (Message& message : messages) {
        if (auto* submitted = std::get_if<Submitted>(&message)) {
            start(*submitted);
        } else if (auto* cancelled = std::get_if<Cancelled>(&message)) {
            cancel_now(cancelled->id);
        } else if (auto* looked = std::get_if<Looked>(&message)) {
            answer(*looked);
        } else {
            resizes_.push_back(std::move(std::get<Resize>(message)));
        }
    }
    return true;
}

void Engine::Loop::start(Submitted& submitted) {
    const Request& request = submitted.request;
    listeners_.emplace(request.id, std::move(submitted.listener));
    auto sequences = scheduler_->add(request);
    if (sequences) {
        output_->add(request, *sequences);
        return;
    }
    refuse(request, sequences.fault());
}

void Engine::Loop::refuse(const Request& request, const Fault& fault) {
    RequestOutput output;
    output.request_id = request.id;
    output.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
    for (int32_t index = 0; index < request.sampling.n; ++index) {
        ContinuationOutput failed;
        failed.index = index;
        failed.finish_reason = FinishReason::error;
        failed.fault = fault;
        output.continuations.push_back(std::move(failed));
    }
    output.finished = true;
    deliver(std::move(output));
}

void Engine::Loop::cancel_now(RequestId id) {
    for (const SequenceId sequence : output_->living(id)) {
        output_->finish(sequence, FinishReason::cancelled);
    }
    scheduler_->cancel(id);
    emit(id);
}

// In the order they were asked for; one that cannot be done yet is tried again before the next
// step.
void Engine::Loop::resize() {
    while (!resizes_.empty()) {
        try {
            if (!scheduler_->resize_cache(resizes_.front().num_blocks, now_s())) return;
            resizes_.front().done.set_value();
        } catch (const Error&) {
            resizes_.front().done.set_exception(std::current_exception());
        }
        resizes_.pop_front();
    }
}

bool Engine::Loop::step() {
    const Clock::time_point begin = Clock::now();
    resize();
    std::optional<BatchPlan> plan = scheduler_->next(now_s());
    if (!plan) return false;
    StepRecord record;
    record.plan_number = plan->number;
    record.num_sequences = static_cast<int32_t>(plan->entries.size());
    record.num_tokens = plan->num_tokens();
    for (const AddedSequence& added : plan->added) {
        const Sequence* sequence = scheduler_->find(added.sequence);
        output_->admitted(added.sequence, sequence->num_cached_tokens.value_or(0), now_s());
    }
    for (const PlanEntry& entry : plan->entries) {
        if (entry.count > 1) output_->planned(entry.sequence, entry.first + entry.count);
    }
    try {
        const StepResult result = worker_->execute(*plan);
        record.swapped_bytes = result.swapped_bytes;
        record.swap_ms = result.swap_ms;
        commit(result, record);
    } catch (const std::exception& error) {
        fail_step(*plan, Fault{ErrorKind::internal, error.what()});
    }
    record.step_ms = milliseconds_since(begin);
    observe(*plan, record);
    const SchedulerStats scheduled = scheduler_->stats();
    record.num_waiting = scheduled.num_waiting;
    record.num_running = scheduled.num_running;
    record.num_paused = scheduled.num_paused;
    record.num_swapped = scheduled.num_swapped;
    record.num_preemptions = scheduled.preemptions;
    record.token_budget = scheduled.token_budget;
    if (step_listener) step_listener(record);
    if (snapshot_listener && record.plan_number == snapshot_step) {
        snapshot_listener(take_snapshot(SnapshotDetail::full));
    }
    return true;
}

// Tells the scheduler what the step took.
void Engine::Loop::observe(const BatchPlan& plan, const StepRecord& record) {
    StepObservation step;
    step.step_ms = record.step_ms;
    step.num_tokens = record.num_tokens;
    for (const PlanEntry& entry : plan.entries) {
        if (entry.count > 1) step.num_prefill_tokens += entry.count;
    }
    step.swapped_bytes = record.swapped_bytes;
    step.swap_ms = record.swap_ms;
    scheduler_->observe(step);
}

void Engine::Loop::commit(const StepResult& result, StepRecord& record) {
    std::vector<Verdict> verdicts = scheduler_->judge(result);
    const double now = now_s();
    std::vector<RequestId> requests;
    for (size_t i = 0; i < verdicts.size(); ++i) {
        output_->judge(result.sequences[i], verdicts[i], now);
        const auto request = output_->request_of(verdicts[i].sequence);
        if (request && (requests.empty() || requests.back() != *request))
            requests.push_back(*request);
    }
    record.num_finished = static_cast<int32_t>(scheduler_->commit(result, verdicts, now).size());
    for (const BeamResult& beams : scheduler_->take_beam_results()) {
        output_->finish_beams(beams.request, beams.hypotheses);
    }
    for (const RequestId request : requests) emit(request);
}

// The worker cannot be trusted with what it was doing: everybody starts over from the tokens they
// have, but for those whose step this was.
void Engine::Loop::fail_step(const BatchPlan& plan, const Fault& fault) {
    std::vector<RequestId> failed;
    for (const PlanEntry& entry : plan.entries) {
        if (const auto request = output_->request_of(entry.sequence)) failed.push_back(*request);
        output_->finish(entry.sequence, FinishReason::error, fault);
        scheduler_->cancel_sequence(entry.sequence);
    }
    worker_->reset();
    scheduler_->reset_worker();
    for (const RequestId request : failed) emit(request);
}

void Engine::Loop::emit(RequestId request) {
    if (std::optional<RequestOutput> output = output_->take(request, now_s()))
        deliver(std::move(*output));
}

void Engine::Loop::deliver(RequestOutput&& output) {
    const auto listener = listeners_.find(output.request_id);
    if (listener == listeners_.end()) return;
    const bool finished = output.finished;
    listener->second(std::move(output));
    if (!finished) return;
    listeners_.erase(listener);
    ++num_delivered_;
}

// Together, so that whoever waited for the engine to be idle finds the figures of an idle engine.
void Engine::Loop::publish_progress() {
    const std::lock_guard lock(mutex_);
    stats_.scheduler = scheduler_->stats();
    stats_.cache = cache_->stats();
    num_open_ -= std::exchange(num_delivered_, 0);
    if (num_open_ == 0) idle_.notify_all();
}

EngineStats Engine::Loop::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

Engine::Engine(const EngineConfig& config) : loop_(std::make_unique<Loop>(config)) {}
Engine::~Engine() = default;

MemoryPlan Engine::plan(const EngineConfig& config, std::optional<uint64_t> available_bytes) {
    check_device(config.device);
    const ModelLoadOptions options = load_options(config, nullptr);
    const ModelOutline outline = outline_model(options);
    MemoryRequest request = memory_request(config, outline);
    if (available_bytes) request.available_bytes = *available_bytes;
    MemoryPlan plan = plan_memory(request);
    if (options.load_format != LoadFormat::dummy && outline.checkpoint == nullptr) {
        plan.notices.push_back(
            fmt::format("{} has no safetensors weights: planned for {} ones of its config.json",
                        options.directory.string(), dtype_name(outline.config.dtype)));
    }
    return plan;
}

Result<Request> Engine::prepare(const RequestInput& input) const { return loop_->prepare(input); }
RequestId Engine::submit(Request request, OutputListener listener) {
    return loop_->submit(std::move(request), std::move(listener));
}
void Engine::cancel(RequestId id) { loop_->cancel(id); }
void Engine::wait_idle() { loop_->wait_idle(); }
void Engine::resize_cache(double share) { loop_->resize_cache(share); }
void Engine::stop() { loop_->stop(); }
void Engine::set_step_listener(std::function<void(const StepRecord&)> listener) {
    loop_->step_listener = std::move(listener);
}
std::future<Snapshot> Engine::snapshot(SnapshotDetail detail) { return loop_->snapshot(detail); }
void Engine::set_snapshot_listener(uint64_t after_step,
                                   std::function<void(const Snapshot&)> listener) {
    loop_->snapshot_step = after_step;
    loop_->snapshot_listener = std::move(listener);
}
const InputProcessor& Engine::input_processor() const { return loop_->input(); }
const std::shared_ptr<const Tokenizer>& Engine::tokenizer() const { return loop_->tokenizer; }
const ModelConfig& Engine::model_config() const { return loop_->model_config; }
const MemoryPlan& Engine::memory_plan() const { return loop_->plan; }
const StartTimings& Engine::start_timings() const { return loop_->timings; }
EngineStats Engine::stats() const { return loop_->stats(); }

}  // namespace nvllm
