// Files and batches of a server, and the thread that computes batches, the oldest first.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "lib/base/file.h"
#include "lib/server/batches/batch_options.h"
#include "lib/server/batches/batch_run.h"

namespace nvllm::server {

class BatchService {
  public:
    // Goes on with what a process before this one left. Throws cannot_create or io for the folder,
    // usage when another process works in it. `start` as in BatchParts.
    BatchService(const BatchOptions& options,
                 std::function<bool(std::shared_ptr<BatchTransaction>)> start);
    ~BatchService();
    BatchService(const BatchService&) = delete;
    BatchService& operator=(const BatchService&) = delete;

    // Begins to compute.
    void begin();
    // From any thread, at once: no further line begins, and those under way are given up.
    void end();

    FileStore& files() { return files_; }
    BatchStore& batches() { return batches_; }
    // A batch was added, or is to be cancelled.
    void tell() { events_->tell(); }

  private:
    void work();
    bool wait_for_work();

    FolderLock lock_;
    FileStore files_;
    BatchStore batches_;
    const BatchParts parts_;
    const std::shared_ptr<BatchEvents> events_ = std::make_shared<BatchEvents>();
    std::thread thread_;
};

}  // namespace nvllm::server
