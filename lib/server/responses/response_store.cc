// A list in the order of use, and a map into it.
#include "lib/server/responses/response_store.h"

namespace nvllm::server {
namespace {

// Of an entry besides its texts.
constexpr size_t kOverhead = 512;

}  // namespace

void ResponseStore::put(const std::string& owner, const std::string& id, StoredResponse response) {
    const size_t bytes = response.body.size() + response.messages.size() + id.size() + kOverhead;
    const std::lock_guard lock(mutex_);
    const Name name(owner, id);
    if (const auto old = places_.find(name); old != places_.end()) remove(old->second);
    if (!is_on() || bytes > options_.max_stored_response_bytes) return;
    entries_.push_front({name, std::make_shared<const StoredResponse>(std::move(response)), bytes});
    places_[name] = entries_.begin();
    bytes_ += bytes;
    while (bytes_ > options_.max_stored_response_bytes ||
           entries_.size() > static_cast<size_t>(options_.max_stored_responses)) {
        remove(std::prev(entries_.end()));
    }
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& owner,
                                                          const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find({owner, id});
    if (place == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, place->second);
    return place->second->response;
}

bool ResponseStore::erase(const std::string& owner, const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find({owner, id});
    if (place == places_.end()) return false;
    remove(place->second);
    return true;
}

void ResponseStore::remove(Entries::iterator entry) {
    bytes_ -= entry->bytes;
    places_.erase(entry->name);
    entries_.erase(entry);
}

}  // namespace nvllm::server
