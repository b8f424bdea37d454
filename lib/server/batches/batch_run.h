// The computation of one batch: its lines as requests, some of them at once, and their results.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/batches/batch_input.h"
#include "lib/server/batches/batch_results.h"
#include "lib/server/batches/batch_store.h"
#include "lib/server/batches/batch_transaction.h"
#include "lib/server/batches/file_store.h"

namespace nvllm::server {

// Wakes the thread that computes batches: a response came, a batch was added or cancelled, or it
// has to end.
struct BatchEvents {
    struct Answer {
        uint64_t run = 0;  // which of the process: one of a run before is late
        size_t line = 0;
        HttpResponse response;
    };
    std::mutex mutex;
    std::condition_variable has_changed;
    std::deque<Answer> answers;
    uint64_t num_runs = 0;
    bool is_ending = false;
    bool has_news = false;

    void tell();
};

struct BatchParts {
    FileStore& files;
    BatchStore& batches;
    // Begins to answer a request; false while there is no room for it.
    std::function<bool(std::shared_ptr<BatchTransaction>)> start;
    size_t concurrency;
};

// On one thread.
class BatchRun {
  public:
    BatchRun(const BatchParts& parts, std::shared_ptr<BatchEvents> events, OwnedBatch owned);
    ~BatchRun() { give_up_all(DisconnectReason::closed); }
    BatchRun(const BatchRun&) = delete;
    BatchRun& operator=(const BatchRun&) = delete;

    // Until the batch has ended, or the server ends: then the next process goes on with it.
    void run();

  private:
    using Clock = std::chrono::steady_clock;
    struct Waiting {
        size_t line;
        Clock::time_point not_before;
    };
    // One of the two files of results.
    struct ResultKind {
        const char* name;
        std::optional<std::string> Batch::*id;
    };
    static constexpr ResultKind kOutput = {"output", &Batch::output_file_id};
    static constexpr ResultKind kErrors = {"error", &Batch::error_file_id};
    enum class Outcome { going_on, all_done, cancelled, expired, server_ends };

    bool begin();
    void compute();
    Outcome outcome();
    void start_lines();
    bool start_line(size_t line);
    void take(BatchEvents::Answer answer);
    void wait();
    void give_up_all(DisconnectReason why);
    void write_unanswered(Outcome why);
    void finish(Outcome why);
    void open(std::optional<ResultFile>& results, const ResultKind& kind);
    std::optional<std::string> publish(ResultFile& results, const ResultKind& kind);
    void adopt(const std::string& id, const ResultKind& kind);
    void count();

    const BatchParts& parts_;
    const std::shared_ptr<BatchEvents> events_;
    const uint64_t number_;
    const std::string owner_;
    Batch batch_;
    std::vector<BatchLine> lines_;
    std::optional<ResultFile> output_;
    std::optional<ResultFile> errors_;
    std::deque<Waiting> waiting_;
    std::map<size_t, std::shared_ptr<BatchTransaction>> under_way_;
};

}  // namespace nvllm::server
