// The requests in flight, for deadlines, for draining and for status reports.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lib/server/requests/active_request.h"

namespace nvllm::server {

// Accepted = finished + aborted + failed + in flight, at any time.
struct RequestCounts {
    std::atomic<int64_t> accepted{0};
    std::atomic<int64_t> finished{0};
    std::atomic<int64_t> aborted{0};
    std::atomic<int64_t> failed{0};
    std::atomic<int64_t> prompt_tokens{0};  // of requests that have ended
    std::atomic<int64_t> generated_tokens{0};
};

// Thread-safe.
class ActiveRequests {
  public:
    void add(const std::shared_ptr<ActiveRequest>& request) {
        const std::lock_guard lock(mutex_);
        requests_.emplace(request.get(), request);
        ++counts_.accepted;
    }

    void remove(const ActiveRequest& request, RequestEnd end) {
        const Usage usage = request.usage();
        const std::lock_guard lock(mutex_);
        if (requests_.erase(&request) == 0) return;
        counts_.prompt_tokens += usage.prompt_tokens;
        counts_.generated_tokens += usage.completion_tokens;
        ++(end == RequestEnd::finished  ? counts_.finished
           : end == RequestEnd::aborted ? counts_.aborted
                                        : counts_.failed);
    }

    size_t size() const {
        const std::lock_guard lock(mutex_);
        return requests_.size();
    }

    std::vector<std::shared_ptr<ActiveRequest>> all() const {
        std::vector<std::shared_ptr<ActiveRequest>> active;
        const std::lock_guard lock(mutex_);
        for (const auto& [address, weak] : requests_) {
            if (auto request = weak.lock()) active.push_back(std::move(request));
        }
        return active;
    }

    const RequestCounts& counts() const { return counts_; }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<const ActiveRequest*, std::weak_ptr<ActiveRequest>> requests_;
    RequestCounts counts_;
};

}  // namespace nvllm::server
