// Responses that were kept for previous_response_id and GET: bounded, the least recently used go
// first.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "lib/server/responses/response_store_options.h"

namespace nvllm::server {

struct StoredResponse {
    std::string body;      // as it was given to the client
    std::string messages;  // JSON: the conversation with the answer, without instructions
};

// Thread-safe. Owners (names of keys, empty without keys) see their own responses only.
class ResponseStore {
  public:
    explicit ResponseStore(const ResponseStoreOptions& options) : options_(options) {}

    bool is_on() const {
        return options_.max_stored_responses > 0 && options_.max_stored_response_bytes > 0;
    }
    // One that is larger than all may be together is not kept.
    void put(const std::string& owner, const std::string& id, StoredResponse response);
    // Null: not there, or another owner's.
    std::shared_ptr<const StoredResponse> find(const std::string& owner, const std::string& id);
    bool erase(const std::string& owner, const std::string& id);

  private:
    using Name = std::pair<std::string, std::string>;  // owner, id
    struct Entry {
        Name name;
        std::shared_ptr<const StoredResponse> response;
        size_t bytes = 0;
    };
    using Entries = std::list<Entry>;

    void remove(Entries::iterator entry);

    const ResponseStoreOptions options_;
    std::mutex mutex_;
    Entries entries_;  // the most recently used first
    std::map<Name, Entries::iterator> places_;
    size_t bytes_ = 0;
};

}  // namespace nvllm::server
