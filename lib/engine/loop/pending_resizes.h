// Changes of the cache's size that wait for a moment between two steps. Owned by the engine thread.
#pragma once

#include <deque>
#include <future>
#include <vector>

#include "lib/engine/loop/engine_inbox.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {

class PendingResizes {
  public:
    bool empty() const { return waiting_.empty(); }
    void add(ResizeMessage resize) { waiting_.push_back(std::move(resize)); }
    // Carries out the resizes in their order, as far as the scheduler can at present. One that is
    // impossible gives its promise the Error. REQUIRES: no step is in flight.
    void run(Scheduler& scheduler, double now_s);
    // Fulfils the promises of finished resizes; to be called when the stats that show the new size
    // are published.
    void report_done();
    // The promises are broken.
    void clear() { waiting_.clear(); }

  private:
    std::deque<ResizeMessage> waiting_;
    std::vector<std::promise<void>> done_;
};

}  // namespace nvllm
