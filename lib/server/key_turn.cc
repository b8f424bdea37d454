// In and out.
#include "lib/server/key_turn.h"

namespace nvllm::server {

std::shared_ptr<KeyTurn> KeyTurn::enter(const std::optional<ApiKey>& key, ApiError& error) {
    auto turn = std::make_shared<KeyTurn>();
    if (!key) return turn;
    if (auto refused = key->use->enter(KeyUse::Clock::now())) {
        error = *refused;
        return nullptr;
    }
    turn->use_ = key->use;
    return turn;
}

KeyTurn::~KeyTurn() {
    if (use_ != nullptr) use_->leave(tokens, KeyUse::Clock::now());
}

}  // namespace nvllm::server
