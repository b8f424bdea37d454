// The thread that reads adapters and copies them to a device, beside steps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "lib/base/result.h"
#include "lib/model/lora/adapter.h"

namespace nvllm {

// To load an adapter from a folder, or to copy a loaded one.
struct AdapterJob {
    uint64_t number = 0;  // who asked
    std::string folder;
    uint64_t digest = 0;                     // of what is to be loaded
    std::shared_ptr<const Adapter> adapter;  // to copy; of a job to load, afterwards, what was
    std::byte* to = nullptr;                 // memory of the device, enough for it
    // Written when it is done.
    double ms = 0.0;
    std::optional<Fault> fault;
};

class AdapterLoader {
  public:
    // `targets` outlives it.
    AdapterLoader(const LoraTargets& targets, DType widest, const ComputeDevice& device);
    ~AdapterLoader();
    AdapterLoader(const AdapterLoader&) = delete;
    AdapterLoader& operator=(const AdapterLoader&) = delete;

    // Jobs are done one after another.
    void add(AdapterJob job);
    // Those that are done and were not returned before; waits for one for so long.
    std::vector<AdapterJob> take_done(std::chrono::milliseconds most = {});

  private:
    void run();
    void carry_out(AdapterJob& job) const;
    void copy(const Adapter& adapter, std::byte* to) const;

    const LoraTargets& targets_;
    DType widest_;
    ComputeDevice device_;
    Stream stream_;
    std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    std::deque<AdapterJob> waiting_;
    std::vector<AdapterJob> done_;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace nvllm
