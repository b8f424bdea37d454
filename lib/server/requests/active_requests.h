// The requests in flight, for deadlines, for draining and for status reports.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lib/server/requests/active_request.h"

namespace nvllm::server {

// Accepted = finished + aborted + failed + in flight.
struct RequestCounts {
    int64_t accepted = 0;
    int64_t finished = 0;
    int64_t aborted = 0;
    int64_t failed = 0;
    int64_t prompt_tokens = 0;  // of requests that have ended
    int64_t generated_tokens = 0;
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

    // What was counted and what was in flight at one moment.
    struct Snapshot {
        RequestCounts counts;
        size_t num_open = 0;
        std::vector<std::shared_ptr<ActiveRequest>> open;  // without those about to be removed
    };

    Snapshot snapshot() const {
        // Outlives the lock: the last holder of a request removes it.
        Snapshot snapshot;
        const std::lock_guard lock(mutex_);
        snapshot.counts = counts_;
        snapshot.num_open = requests_.size();
        for (const auto& [address, weak] : requests_) {
            if (auto request = weak.lock()) snapshot.open.push_back(std::move(request));
        }
        return snapshot;
    }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<const ActiveRequest*, std::weak_ptr<ActiveRequest>> requests_;
    RequestCounts counts_;
};

}  // namespace nvllm::server
