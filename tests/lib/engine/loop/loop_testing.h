// The parts of an engine's loop around an executor that does as the test says.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "lib/engine/loop/fault_handler.h"
#include "lib/engine/loop/step_runner.h"

namespace nvllm::test {

// Token i of a sequence is i + 100. Tokens of all sequences are chosen by one rule, so results do
// not depend on how steps were planned.
class ScriptedExecutor : public StepExecutor {
  public:
    void start() override { ++num_starts; }
    std::optional<WorkerReady> ready(bool) override {
        if (!can_start) throw Error(ErrorKind::bad_data, "no weights");
        if (!is_ready) return std::nullopt;
        return WorkerReady{};
    }
    std::optional<int> readable_descriptor() const override { return std::nullopt; }
    std::optional<std::string> check_alive() override { return std::exchange(death, {}); }
    StepResult execute(const BatchPlan& plan) override {
        ++num_steps;
        if (before_step) before_step(plan);
        return result_of(plan);
    }
    int max_in_flight() const override { return depth; }
    void begin(const BatchPlan& plan) override {
        ++num_steps;
        if (before_step) before_step(plan);
        begun.push_back(result_of(plan));
        max_begun = std::max(max_begun, begun.size());
    }
    StepResult finish() override {
        StepResult result = std::move(begun.front());
        begun.pop_front();
        return result;
    }
    void forget() override {
        ++num_forgets;
        begun.clear();
    }
    std::optional<int> process_id() const override { return std::nullopt; }
    bool kill(const std::string&) override { return false; }

    int depth = 1;
    bool can_start = true;
    bool is_ready = true;
    bool gives_nonfinite = false;
    std::optional<std::string> death;
    std::function<void(const BatchPlan&)> before_step;  // may throw
    int num_starts = 0;
    int num_steps = 0;
    int num_forgets = 0;
    size_t max_begun = 0;
    std::deque<StepResult> begun;

  private:
    StepResult result_of(const BatchPlan& plan) const {
        StepResult result;
        result.plan_number = plan.number;
        for (const PlanEntry& entry : plan.entries) {
            SequenceStep& step = result.sequences.emplace_back();
            step.sequence = entry.sequence;
            if (entry.output != OutputKind::sample) continue;
            if (gives_nonfinite) {
                step.fault = Fault{ErrorKind::internal, "not finite"};
            } else {
                step.token_ids = {entry.first + entry.count + 100};
            }
        }
        return result;
    }
};

struct LoopOptions {
    int depth = 1;
    int32_t num_blocks = 64;
};

inline SchedulerConfig scheduler_config_of(const LoopOptions& options) {
    SchedulerConfig config;
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 64;
    config.max_model_len = 128;
    config.block_bytes = {1024};
    config.pipeline_depth = options.depth;
    if (options.depth > 1) config.may_plan_ahead = [](const SamplingParams&) { return true; };
    return config;
}

inline CacheConfig cache_config_of(const LoopOptions& options) {
    CacheConfig config;
    config.block_size = 4;
    config.groups = {{options.num_blocks, 0, 0}};
    return config;
}

// What listeners got of each request.
struct Received {
    std::vector<int32_t> ids;
    std::optional<FinishReason> finish;
    std::optional<Fault> fault;
    int num_last = 0;
};

struct LoopParts {
    explicit LoopParts(const LoopOptions& options = {})
        : cache(cache_config_of(options)), scheduler(scheduler_config_of(options), cache) {
        executor.depth = options.depth;
        delivery.use_tokenizer(nullptr);
        faults.start_worker([] { return true; });
        executor.num_starts = 0;
    }

    RequestId add(int32_t num_prompt_tokens, int32_t max_tokens) {
        Request request;
        request.id = next_request++;
        for (int32_t i = 0; i < num_prompt_tokens; ++i) request.prompt_token_ids.push_back(i + 1);
        request.sampling.max_tokens = max_tokens;
        request.sampling.temperature = 0.0f;
        request.sampling.seed = 1;
        delivery.open(request.id, listener(request.id));
        delivery.add(request, *scheduler.add(request));
        return request.id;
    }
    OutputListener listener(RequestId id) {
        return [this, id](RequestOutput&& output) {
            Received& got = received[id];
            got.num_last += output.finished;
            for (const ContinuationOutput& part : output.continuations) {
                got.ids.insert(got.ids.end(), part.token_ids.begin(), part.token_ids.end());
                if (part.finish_reason) got.finish = part.finish_reason;
                if (part.fault) got.fault = part.fault;
            }
        };
    }
    // Steps until there is no work, or no worker for it.
    void run() {
        for (int i = 0; i < 1000 && steps.can_step(); ++i) steps.step();
    }

    EngineClock clock;
    EngineInbox inbox{clock, {}};
    EngineStatus status;
    OutputDelivery delivery{clock};
    PendingResizes resizes;
    CacheManager cache;
    Scheduler scheduler;
    ScriptedExecutor executor;
    int num_published = 0;
    FaultHandler faults{
        {executor, scheduler, delivery, resizes, status, inbox}, 64, [this] { ++num_published; }};
    std::vector<StepRecord> records;
    StepRunner steps{{executor, scheduler, delivery, resizes, faults, status.heartbeat(), clock},
                     [this](const StepRecord& record) { records.push_back(record); }};
    std::map<RequestId, Received> received;
    RequestId next_request = 1;
};

// The ids that ScriptedExecutor chooses.
inline std::vector<int32_t> scripted_ids(int32_t num_prompt_tokens, int32_t count) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < count; ++i) ids.push_back(num_prompt_tokens + i + 100);
    return ids;
}

}  // namespace nvllm::test
