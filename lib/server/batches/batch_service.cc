// One batch after the other.
#include "lib/server/batches/batch_service.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "kernels/host/start_thread.h"
#include "lib/base/log.h"

namespace nvllm::server {
namespace {

// After a disk that failed.
constexpr std::chrono::seconds kPatienceWithDisk{5};

FolderLock take_folder(const std::filesystem::path& folder) {
    make_folder(folder);
    FolderLock lock;
    if (lock.take(folder)) return lock;
    throw Error(ErrorKind::usage,
                fmt::format("--batch-dir: another process works in {}", folder.string()));
}

}  // namespace

BatchService::BatchService(const BatchOptions& options,
                           std::function<bool(std::shared_ptr<BatchTransaction>)> start)
    : lock_(take_folder(options.directory)),
      files_(options.directory / "files", options.max_stored_bytes),
      batches_(options.directory / "batches"),
      parts_{files_, batches_, std::move(start), static_cast<size_t>(options.concurrency)} {}

BatchService::~BatchService() {
    end();
    if (thread_.joinable()) thread_.join();
}

void BatchService::begin() {
    thread_ = start_thread([this] { work(); });
}

void BatchService::end() {
    {
        const std::lock_guard lock(events_->mutex);
        events_->is_ending = true;
    }
    events_->has_changed.notify_all();
}

// False when the server ends.
bool BatchService::wait_for_work() {
    std::unique_lock lock(events_->mutex);
    events_->has_changed.wait(lock, [&] { return events_->has_news || events_->is_ending; });
    events_->has_news = false;
    return !events_->is_ending;
}

// A disk that is full or broken holds batches up; it ends nothing.
void BatchService::work() {
    do {
        while (const auto next = batches_.first_open()) {
            std::chrono::seconds patience{0};
            try {
                BatchRun(parts_, events_, *next).run();
            } catch (const std::exception& error) {
                log_error(fmt::format("{} cannot go on: {}", next->batch.id, error.what()));
                patience = kPatienceWithDisk;
            }
            std::unique_lock lock(events_->mutex);
            events_->has_changed.wait_for(lock, patience, [&] { return events_->is_ending; });
            if (events_->is_ending) return;
        }
    } while (wait_for_work());
}

}  // namespace nvllm::server
