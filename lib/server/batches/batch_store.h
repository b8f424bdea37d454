// All batches, each with a record on disk that says how far it is.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/batches/batch_types.h"

namespace nvllm::server {

struct OwnedBatch {
    std::string owner;  // the name of its API key; others do not see it
    Batch batch;
};

// Thread-safe. Functions that write throw io when the disk is full or broken.
class BatchStore {
  public:
    // Reads what is there; an unreadable record is left alone, with a line in the log.
    explicit BatchStore(std::filesystem::path folder);

    // A new batch, with an id and in the state validating.
    Batch add(const std::string& owner, Batch batch);
    std::optional<Batch> find(const std::string& owner, const std::string& id) const;
    // The newest first.
    std::vector<Batch> list(const std::string& owner) const;

    // The oldest that has not ended.
    std::optional<OwnedBatch> first_open() const;
    // Changes one and writes its record; `id` names one that is there. Returns the changed one.
    Batch change(const std::string& id, const std::function<void(Batch&)>& change);
    // In memory alone: after a restart it is counted anew.
    void set_counts(const std::string& id, const BatchCounts& counts);

    // Where the results of a batch are gathered while it is computed; `kind`: "output" or "error".
    std::filesystem::path results_path(const std::string& id, const char* kind) const;

  private:
    void write_record(const OwnedBatch& owned) const;

    const std::filesystem::path folder_;
    mutable std::mutex mutex_;
    std::map<std::string, OwnedBatch> batches_;  // by id, so the oldest first
};

}  // namespace nvllm::server
