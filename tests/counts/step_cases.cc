// Steps of an engine: plan, compute, judge, commit.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "lib/cache/cache_manager.h"
#include "lib/execute/worker.h"
#include "lib/model/loader.h"
#include "lib/schedule/scheduler.h"
#include "tests/counts/counted_case.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm::counts {
namespace {

using Compute = std::function<StepResult(const BatchPlan&)>;

// Chooses the same token for all.
StepResult compute_nothing(const BatchPlan& plan) {
    StepResult result{.plan_number = plan.number, .sequences = {}};
    result.sequences.resize(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        result.sequences[i].sequence = plan.entries[i].sequence;
        result.sequences[i].token_ids = {7};
    }
    return result;
}

// A scheduler, and what computes its plans.
class Stepper {
  public:
    static constexpr int32_t kMaxSequences = 64, kMaxTokens = 4096, kMaxLength = 1024;
    static constexpr int32_t kBlocks = 40 * kMaxSequences;

    Stepper(bool caches_prefixes, Compute compute)
        : cache_({.block_size = 16,
                  .groups = {{kBlocks, 0}},
                  .enable_prefix_caching = caches_prefixes,
                  .hash_key = HashKey{1, 2}}),
          scheduler_(configuration(), cache_),
          compute_(std::move(compute)) {}

    void add(int32_t num_prompt, int32_t max_tokens) {
        Request request = endless(++last_request_, num_prompt, max_tokens);
        for (int32_t& id : request.prompt_token_ids) id %= 2048;  // the demo model's vocabulary
        request.sampling.temperature = 0.0f;
        NVLLM_CHECK(scheduler_.add(request).ok(), "a request that fits was refused");
    }

    void step() {
        const std::optional<BatchPlan> plan = scheduler_.next(now_s_ += 1e-3);
        NVLLM_CHECK(plan.has_value(), "nothing was planned");
        const StepResult result = compute_(*plan);
        scheduler_.commit(result, scheduler_.check_stop(result), now_s_ += 1e-3);
    }

  private:
    static SchedulerConfig configuration() {
        SchedulerConfig config;
        config.max_num_seqs = kMaxSequences;
        config.max_num_batched_tokens = kMaxTokens;
        config.max_model_len = kMaxLength;
        return config;
    }

    CacheManager cache_;
    Scheduler scheduler_;
    Compute compute_;
    RequestId last_request_ = 0;
    double now_s_ = 0.0;
};

// A worker with one thread.
struct ModelWorker {
    ThreadPool threads{1};
    Worker worker;

    explicit ModelWorker(const std::string& directory)
        : worker(load_model({.directory = directory, .threads = &threads, .prefetch = false}),
                 {.num_blocks = {Stepper::kBlocks},
                  .num_host_blocks = {},
                  .max_num_batched_tokens = Stepper::kMaxTokens,
                  .max_num_seqs = Stepper::kMaxSequences,
                  .kv_dtype = DType::bf16},
                 threads) {}
};

std::shared_ptr<Stepper> stepper_with_model(const std::string& directory) {
    const auto model = std::make_shared<ModelWorker>(directory);
    return std::make_shared<Stepper>(
        false, [model](const BatchPlan& plan) { return model->worker.execute(plan); });
}

// Prompts of all lengths: their blocks do not fill in the same step.
void add_decoding(Stepper& stepper, int32_t num_sequences, int32_t shortest) {
    for (int32_t i = 0; i < num_sequences; ++i) stepper.add(shortest + i % 23, 500);
    stepper.step();
}

}  // namespace

void add_step_cases(const std::string& model_directory, std::vector<CaseMaker>& makers) {
    makers.push_back([]() -> CountedCase {
        const auto stepper = std::make_shared<Stepper>(true, compute_nothing);
        add_decoding(*stepper, 64, 40);
        // In 16 steps each sequence fills a block.
        return {"plan and commit, 16 steps of 64 sequences", {}, [=] {
                    for (int step = 0; step < 16; ++step) stepper->step();
                }};
    });
    for (const int32_t num_sequences : {1, 8}) {
        makers.push_back([=]() -> CountedCase {
            const auto stepper = stepper_with_model(model_directory);
            add_decoding(*stepper, num_sequences, 3);
            return {fmt::format("demo model, decode of {}", num_sequences), {}, [=] {
                        stepper->step();
                    }};
        });
    }
    makers.push_back([=]() -> CountedCase {
        const auto stepper = stepper_with_model(model_directory);
        return {"demo model, prefill of 50", [=] { stepper->add(50, 1); },
                [=] { stepper->step(); }};
    });
}

}  // namespace nvllm::counts
