// A record a batch: {"owner": ..., "batch": {...}}.
#include "lib/server/batches/batch_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/server/batches/file_store.h"
#include "lib/server/batches/record_reader.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {

namespace fs = std::filesystem;

BatchStore::BatchStore(fs::path folder) : folder_(std::move(folder)) {
    make_folder(folder_);
    for (const auto& item : fs::directory_iterator(folder_)) {
        if (item.path().extension() != ".json") continue;
        try {
            const auto json = parse_ordered_json(read_file(item.path()), item.path().string());
            OwnedBatch owned{json.at("owner").get<std::string>(),
                             RecordReader::whole<Batch>(json.at("batch"))};
            const std::string id = owned.batch.id;
            batches_.emplace(id, std::move(owned));
        } catch (const std::exception& error) {
            log_warning(
                fmt::format("{} is no record of a batch: {}", item.path().string(), error.what()));
        }
    }
}

void BatchStore::write_record(const OwnedBatch& owned) const {
    write_new_file(folder_ / (owned.batch.id + ".json"),
                   fmt::format("{{\"owner\":{},\"batch\":{}}}\n", json_quoted(owned.owner),
                               json_of(owned.batch)));
}

Batch BatchStore::add(const std::string& owner, Batch batch) {
    batch.id = new_id("batch_");
    batch.status = "validating";
    batch.created_at = std::time(nullptr);
    OwnedBatch owned{owner, batch};
    write_record(owned);
    const std::lock_guard lock(mutex_);
    batches_.emplace(batch.id, std::move(owned));
    return batch;
}

std::optional<Batch> BatchStore::find(const std::string& owner, const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(id);
    if (found == batches_.end() || found->second.owner != owner) return std::nullopt;
    return found->second.batch;
}

std::vector<Batch> BatchStore::list(const std::string& owner) const {
    std::vector<Batch> batches;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [id, owned] : batches_) {
            if (owned.owner == owner) batches.push_back(owned.batch);
        }
    }
    std::ranges::reverse(batches);
    return batches;
}

std::optional<OwnedBatch> BatchStore::first_open() const {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, owned] : batches_) {
        if (!owned.batch.has_ended()) return owned;
    }
    return std::nullopt;
}

Batch BatchStore::change(const std::string& id, const std::function<void(Batch&)>& change) {
    const std::lock_guard lock(mutex_);
    OwnedBatch changed = batches_.at(id);
    change(changed.batch);
    write_record(changed);
    batches_.at(id) = changed;
    return changed.batch;
}

void BatchStore::set_counts(const std::string& id, const BatchCounts& counts) {
    const std::lock_guard lock(mutex_);
    batches_.at(id).batch.request_counts = counts;
}

fs::path BatchStore::results_path(const std::string& id, const char* kind) const {
    return folder_ / fmt::format("{}.{}.jsonl", id, kind);
}

}  // namespace nvllm::server
