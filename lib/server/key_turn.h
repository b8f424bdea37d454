// A request of a key, counted in while it lives.
#pragma once

#include <memory>
#include <optional>

#include "lib/server/access.h"

namespace nvllm::server {

class KeyTurn {
  public:
    // Null, with `error` set, when the key has reached a limit. Requests without a key have none.
    static std::shared_ptr<KeyTurn> enter(const std::optional<ApiKey>& key, ApiError& error);
    ~KeyTurn();
    KeyTurn() = default;
    KeyTurn(const KeyTurn&) = delete;
    KeyTurn& operator=(const KeyTurn&) = delete;

    int64_t tokens = 0;  // what the request came to

  private:
    std::shared_ptr<KeyUse> use_;
};

}  // namespace nvllm::server
