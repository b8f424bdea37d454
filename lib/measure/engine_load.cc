// Submitting, recording, waiting.
#include "lib/measure/engine_load.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/base/clock.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/input_processor.h"
#include "lib/system/process_info.h"

namespace nvllm {
namespace {

// How soon a stop signal is noticed.
constexpr std::chrono::milliseconds kSignalPause{50};

}  // namespace

struct EngineLoad::Run {
    Run(std::vector<Request> all, const LoadOptions& how, const Watcher& also)
        : requests(std::move(all)), options(how), watcher(also) {
        for (const Request& request : requests) {
            num_left.push_back(static_cast<int64_t>(request.prompt_token_ids.size()) +
                               request.sampling.max_tokens.value_or(0));
        }
    }

    std::vector<Request> requests;
    const LoadOptions& options;
    const Watcher& watcher;
    MonotonicClock clock;
    double start_s = clock.now_s();
    double cpu_before_s = process_stats().cpu_s;
    size_t num_finished = 0;        // guarded by mutex_
    std::vector<int64_t> num_left;  // tokens of each request; the engine thread's
    std::atomic<int64_t> num_tokens_done = 0;
    LoadResult result;

    double now_s() const { return clock.now_s() - start_s; }
    // True when the request has finished. On the engine thread.
    bool record(size_t index, const RequestOutput& output);
    void count(size_t index, int64_t num_tokens);
};

void EngineLoad::Run::count(size_t index, int64_t num_tokens) {
    num_left[index] -= num_tokens;
    num_tokens_done += num_tokens;
}

bool EngineLoad::Run::record(size_t index, const RequestOutput& output) {
    RequestRecord& record = result.requests[index];
    const double now = now_s();
    const int64_t num_before = record.num_output_tokens;
    for (const ContinuationOutput& part : output.continuations) {
        record.token_times_s.insert(record.token_times_s.end(), part.token_ids.size(), now);
        record.num_output_tokens += static_cast<int64_t>(part.token_ids.size());
        if (options.keep_text) record.text += part.text;
        if (part.fault) record.error = part.fault->message;
    }
    record.num_cached_tokens = output.num_cached_tokens;
    record.adapter_tier = output.adapter_tier;
    const int64_t num_new = record.num_output_tokens - num_before;
    if (num_before == 0 && num_new > 0) count(index, record.num_prompt_tokens);
    count(index, output.finished ? num_left[index] : num_new);
    if (output.finished) record.finished_s = now;
    return output.finished;
}

int64_t LoadResult::num_finished() const {
    return std::ranges::count_if(
        requests, [](const RequestRecord& request) { return request.finished_s > 0.0; });
}

int64_t LoadResult::prompt_tokens() const {
    int64_t total = 0;
    for (const RequestRecord& request : requests) total += request.num_prompt_tokens;
    return total;
}

int64_t LoadResult::output_tokens() const {
    int64_t total = 0;
    for (const RequestRecord& request : requests) total += request.num_output_tokens;
    return total;
}

double LoadResult::decode_tokens_per_second() const {
    double begin_s = 0.0;
    for (const RequestRecord& request : requests) {
        begin_s = std::max(begin_s, request.first_token_s());
    }
    int64_t count = 0;
    double end_s = begin_s;
    for (const RequestRecord& request : requests) {
        count += std::ranges::count_if(request.token_times_s,
                                       [&](double time_s) { return time_s > begin_s; });
        end_s = std::max(end_s, request.token_times_s.empty() ? 0.0 : request.token_times_s.back());
    }
    return end_s > begin_s ? static_cast<double>(count) / (end_s - begin_s) : 0.0;
}

EngineLoad::EngineLoad(Engine& engine) : engine_(engine) {
    engine_.set_step_listener([this](const StepRecord& step) {
        num_steps_ += 1;
        num_sequence_steps_ += step.num_sequences;
        num_draft_tokens_ += step.num_draft_tokens;
        busy_ms_ += step.busy_ms;
        if (step.num_tokens > 0) num_ranks_ = step.num_ranks;
    });
}

EngineLoad::~EngineLoad() { engine_.stop(); }

Request EngineLoad::prepare(const WorkItem& item, const LoadOptions& options) const {
    RequestInput input;
    input.prompt = item.prompt_ids;
    input.sampling.temperature = options.temperature;
    input.sampling.max_tokens = item.num_output_tokens;
    input.sampling.ignore_eos = item.ignore_eos;
    input.sampling.seed = options.seed;
    input.cache_salt = options.cache_salt;
    input.adapter = item.adapter;
    return std::move(engine_.prepare(input).value_or_throw());
}

void EngineLoad::submit(Run& run, size_t index) {
    RequestRecord& record = run.result.requests[index];
    record.num_prompt_tokens = static_cast<int64_t>(run.requests[index].prompt_token_ids.size());
    record.sent_s = run.now_s();
    engine_.submit(std::move(run.requests[index]), [this, &run, index](RequestOutput&& output) {
        const bool is_last = run.record(index, output);
        if (run.watcher) run.watcher(index, output);
        if (!is_last) return;
        const std::lock_guard lock(mutex_);
        ++run.num_finished;
        finished_.notify_all();
    });
}

void EngineLoad::wait_until(Run& run, size_t num_finished) {
    std::unique_lock lock(mutex_);
    while (run.num_finished < num_finished) {
        finished_.wait_for(lock, kSignalPause);
        if (run.options.done) run.options.done(run.num_tokens_done);
        if (const auto signal = stop_signal()) {
            lock.unlock();
            engine_.stop();  // its listeners write into this run
            throw Interrupted{*signal};
        }
    }
}

void EngineLoad::wait_for_time(Run& run, double time_s) {
    for (double left_s = time_s - run.now_s(); left_s > 0.0; left_s = time_s - run.now_s()) {
        std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(
            kSignalPause, std::chrono::duration<double>(left_s)));
        if (stop_signal()) wait_until(run, run.requests.size() + 1);
    }
}

LoadResult EngineLoad::run(std::span<const WorkItem> items, const LoadOptions& options) {
    std::vector<Request> requests;
    for (const WorkItem& item : items) requests.push_back(prepare(item, options));
    return run_requests(std::move(requests), items, options);
}

LoadResult EngineLoad::run_requests(std::vector<Request> requests, std::span<const WorkItem> items,
                                    const LoadOptions& options, const Watcher& watcher) {
    const size_t count = requests.size();
    num_steps_ = 0;
    num_sequence_steps_ = 0;
    num_draft_tokens_ = 0;
    busy_ms_ = 0.0;
    const int64_t accepted_before = num_accepted_drafts();
    Run run{std::move(requests), options, watcher};
    run.result.requests.resize(count);
    try {
        run_all(run, items);
    } catch (Interrupted& stopped) {
        run.result.elapsed_s = run.now_s();
        LoadResult partial = take_result(run, accepted_before);
        std::erase_if(partial.requests,
                      [](const RequestRecord& request) { return request.token_times_s.empty(); });
        stopped.partial = std::make_shared<const LoadResult>(std::move(partial));
        throw;
    }
    return take_result(run, accepted_before);
}

int64_t EngineLoad::num_accepted_drafts() const {
    return engine_.stats().scheduler.speculation.accepted_tokens;
}

void EngineLoad::run_all(Run& run, std::span<const WorkItem> items) {
    const size_t count = run.requests.size();
    const size_t batch = run.options.batching == Batching::fixed
                             ? static_cast<size_t>(std::max(1, run.options.batch))
                             : std::max<size_t>(1, count);
    for (size_t index = 0; index < count; ++index) {
        if (index % batch == 0) wait_until(run, index);
        if (run.options.batching == Batching::timed) wait_for_time(run, items[index].send_at_s);
        submit(run, index);
    }
    wait_until(run, count);
    run.result.elapsed_s = run.now_s();
    engine_.wait_idle();  // the last step is counted
}

LoadResult EngineLoad::take_result(Run& run, int64_t accepted_before) const {
    run.result.cpu_s = process_stats().cpu_s - run.cpu_before_s;
    run.result.num_steps = num_steps_;
    run.result.num_draft_tokens = num_draft_tokens_;
    run.result.num_accepted_drafts = num_accepted_drafts() - accepted_before;
    const double places = static_cast<double>(num_steps_) * std::max(1, run.options.batch);
    run.result.slots_filled =
        places > 0.0 ? static_cast<double>(num_sequence_steps_) / places : 0.0;
    const size_t replicas = std::max<size_t>(engine_.stats().replicas.size(), 1);
    const double rank_ms = run.result.elapsed_s * 1e3 * num_ranks_ * static_cast<double>(replicas);
    run.result.ranks_busy = rank_ms > 0.0 ? busy_ms_ / rank_ms : 0.0;
    return std::move(run.result);
}

}  // namespace nvllm
