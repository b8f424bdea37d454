// One pool of memory for the caches of all models of a server: who is short of blocks gets those
// that others do not use.
//
// Every engine plans a cache that could take the whole pool; memory is taken only for blocks that
// are in use, and the broker holds the caches to shares that fit together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lib/server/models/model_set.h"

namespace nvllm::server {

// Bytes of one model's cache.
struct CacheRequest {
    uint64_t min_bytes = 0;     // one longest sequence fits
    uint64_t needed_bytes = 0;  // what is used, or all of it while a sequence waits
    uint64_t max_bytes = 0;     // as planned
};

// Everybody's least; of the rest equal parts up to what is needed, then equal parts up to the most.
// Adds up to `pool_bytes` at most, unless the leasts alone are more.
std::vector<uint64_t> share_pool(uint64_t pool_bytes, std::span<const CacheRequest> claims);

class MemoryBroker {
  public:
    // `models` outlives the broker.
    explicit MemoryBroker(const ModelSet& models);
    // A cache that is being resized is waited for, so engines are stopped before.
    ~MemoryBroker();
    MemoryBroker(const MemoryBroker&) = delete;
    MemoryBroker& operator=(const MemoryBroker&) = delete;

    // The same configuration with the limits that the loaded models leave: their
    // weights, and one longest sequence of each.
    EngineConfig fit(EngineConfig config) const;
    // A model came or went: shares are made anew at once, on the broker's thread.
    void models_changed();

  private:
    void run();
    void share();

    const ModelSet& models_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool shutdown_ = false;
    bool changed_ = false;
    size_t num_sharing_ = 0;  // models at the last check; its thread's own
    std::thread thread_;
};

}  // namespace nvllm::server
