// The requests in flight: their counts are of one moment.
#include "lib/server/requests/active_requests.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using namespace nvllm;
using namespace nvllm::server;

namespace {

class EmptyRequest : public ActiveRequest {
  public:
    void check_deadlines(const RequestTimeouts&, Clock::time_point) override {}
    Usage usage() const override { return {.prompt_tokens = 3, .completion_tokens = 2}; }
    RequestStats stats() const override { return {}; }
};

TEST_CASE("a snapshot accounts for every request while others come and end") {
    ActiveRequests requests;
    constexpr int kThreads = 3;
    constexpr int kRequests = 20'000;
    std::atomic<int> num_running = kThreads;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&] {
            for (int i = 0; i < kRequests; ++i) {
                const auto request = std::make_shared<EmptyRequest>();
                requests.add(request);
                requests.remove(*request, static_cast<RequestEnd>(i % 3));
            }
            --num_running;
        });
    }
    int64_t num_torn = 0;
    while (num_running > 0) {
        const ActiveRequests::Snapshot now = requests.snapshot();
        const int64_t ended = now.counts.finished + now.counts.aborted + now.counts.failed;
        num_torn += now.counts.accepted != ended + static_cast<int64_t>(now.num_open);
        num_torn += now.counts.prompt_tokens != 3 * ended || now.open.size() > now.num_open;
    }
    threads.clear();
    CHECK(num_torn == 0);
    CHECK(requests.snapshot().counts.accepted == kThreads * kRequests);
    CHECK(requests.size() == 0);
}

}  // namespace
