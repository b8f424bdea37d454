// One job after another.
#include "lib/execute/adapters/adapter_loader.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "kernels/host/start_thread.h"
#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

// A copy of so much does not keep others of the link waiting.
constexpr size_t kChunkBytes = size_t{4} << 20;

}  // namespace

AdapterLoader::AdapterLoader(const LoraTargets& targets, DType widest, const ComputeDevice& device)
    : targets_(targets),
      widest_(widest),
      device_(device),
      stream_(device),
      thread_(start_thread([this] { run(); })) {}

AdapterLoader::~AdapterLoader() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
        waiting_.clear();
    }
    changed_.notify_all();
    thread_.join();
}

void AdapterLoader::add(AdapterJob job) {
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(job));
    }
    changed_.notify_all();
}

std::vector<AdapterJob> AdapterLoader::take_done(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    if (most.count() > 0) {
        changed_.wait_for(lock, most, [this] { return !done_.empty(); });
    }
    return std::exchange(done_, {});
}

void AdapterLoader::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
        if (is_ending_) return;
        AdapterJob job = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        const auto begin = std::chrono::steady_clock::now();
        try {
            carry_out(job);
        } catch (const Error& error) {
            job.fault = Fault{error.kind(), error.what()};
        } catch (const std::bad_alloc&) {
            job.fault = Fault{ErrorKind::does_not_fit, job.folder + ": not enough memory"};
        } catch (const std::exception& error) {
            job.fault = Fault{ErrorKind::internal, error.what()};
        }
        const std::chrono::duration<double, std::milli> passed =
            std::chrono::steady_clock::now() - begin;
        job.ms = passed.count();
        lock.lock();
        done_.push_back(std::move(job));
        changed_.notify_all();
    }
}

void AdapterLoader::carry_out(AdapterJob& job) const {
    if (job.adapter != nullptr) return copy(*job.adapter, job.to);
    fault_point("adapter.load");
    const AdapterFile file = read_adapter(job.folder);
    if (file.digest != job.digest) {
        throw Error(ErrorKind::bad_data,
                    file.path.string() +
                        ": changed since the adapter was named; unload it and load it anew");
    }
    job.adapter = std::make_shared<const Adapter>(file, targets_, widest_);
}

void AdapterLoader::copy(const Adapter& adapter, std::byte* to) const {
    for (size_t done = 0; done < adapter.bytes(); done += kChunkBytes) {
        const size_t bytes = std::min(kChunkBytes, adapter.bytes() - done);
        device_.copy_in(stream_.stream(), to + done, adapter.data() + done, bytes);
        device_.synchronize(stream_.stream());
    }
}

}  // namespace nvllm
