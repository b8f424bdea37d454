// Runs requests on an engine in this process and records when each token came.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/measure/workload.h"

namespace nvllm {

// What became of one request. Times are seconds from the start of the run.
struct RequestRecord {
    int64_t num_prompt_tokens = 0;
    int64_t num_cached_tokens = 0;
    int64_t num_output_tokens = 0;
    double sent_s = 0.0;
    std::vector<double> token_times_s;  // of each token; several may arrive at once
    double finished_s = 0.0;
    std::optional<AdapterTier> adapter_tier = {};  // when it was sent
    std::string text;
    std::optional<std::string> error;

    double first_token_s() const { return token_times_s.empty() ? 0.0 : token_times_s.front(); }
};

struct LoadResult {
    double elapsed_s = 0.0;
    double cpu_s = 0.0;                   // of this process, all threads
    std::vector<RequestRecord> requests;  // in the order of the items
    // Counted over the steps of the run: sequences computed, of those there was room for.
    int64_t num_steps = 0;
    double slots_filled = 0.0;  // from 0 to 1
    double ranks_busy = 0.0;    // share of the time in which ranks computed, from 0 to 1
    // Speculative decoding: tokens that steps verified, and of those the accepted ones.
    int64_t num_draft_tokens = 0;
    int64_t num_accepted_drafts = 0;

    int64_t num_finished() const;
    int64_t prompt_tokens() const;
    int64_t output_tokens() const;
    // Of all requests together from when the last of them had its first token; 0 when nothing came
    // after it. Of one batch this is decoding alone.
    double decode_tokens_per_second() const;
};

// When requests are handed over.
enum class Batching {
    continuous,  // a finished sequence's place is taken in the next step
    fixed,       // a batch is handed over when the whole one before it has finished
    timed,       // each at its send_at_s
};

struct LoadOptions {
    Batching batching = Batching::continuous;
    int32_t batch = 1;         // places: the engine's max_num_seqs
    float temperature = 0.0f;  // 0: greedy, the cheapest sampling
    uint64_t seed = 0;
    std::string cache_salt = {};  // prompts share cached blocks only under the same one
    bool keep_text = false;
    // Told now and then, on the thread that waits, how many tokens are done, of prompts and
    // outputs; of a request that ended early all that it might have had.
    std::function<void(int64_t num_tokens)> done = {};
};

// Thrown when SIGINT or SIGTERM arrived meanwhile; no Error: nothing went wrong.
struct Interrupted {
    int signal = 0;
    // Of a load: the requests that had output by then. Those that had not finished have a
    // finished_s of 0.
    std::shared_ptr<const LoadResult> partial = {};
};

// One run at a time. Listens to the engine's steps: there may be one EngineLoad for an engine.
class EngineLoad {
  public:
    explicit EngineLoad(Engine& engine);
    // Stops the engine: no listener may outlive this object.
    ~EngineLoad();
    EngineLoad(const EngineLoad&) = delete;
    EngineLoad& operator=(const EngineLoad&) = delete;

    // Returns when all have finished. Throws the fault of the first request that cannot be prepared
    // (too long for the context) before anything runs; later faults stand in the records. Throws
    // Interrupted.
    LoadResult run(std::span<const WorkItem> items, const LoadOptions& options);

    // The same for prepared requests, which may ask for anything; `watcher` gets every output
    // after it was recorded, on the engine thread.
    using Watcher = std::function<void(size_t index, const RequestOutput& output)>;
    LoadResult run_requests(std::vector<Request> requests, std::span<const WorkItem> items,
                            const LoadOptions& options, const Watcher& watcher = {});

    Engine& engine() { return engine_; }

  private:
    struct Run;
    Request prepare(const WorkItem& item, const LoadOptions& options) const;
    void submit(Run& run, size_t index);
    void wait_until(Run& run, size_t num_finished);
    void wait_for_time(Run& run, double time_s);
    void run_all(Run& run, std::span<const WorkItem> items);
    // `accepted_before`: num_accepted_drafts() at the start of the run.
    LoadResult take_result(Run& run, int64_t accepted_before) const;
    int64_t num_accepted_drafts() const;

    Engine& engine_;
    std::atomic<int64_t> num_steps_{0};
    std::atomic<int64_t> num_sequence_steps_{0};
    std::atomic<int64_t> num_draft_tokens_{0};
    std::atomic<double> busy_ms_{0.0};
    std::atomic<int32_t> num_ranks_{1};
    std::mutex mutex_;
    std::condition_variable finished_;
};

}  // namespace nvllm
