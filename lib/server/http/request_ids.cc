// Clients' ids, and numbers behind them.
#include "lib/server/http/request_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string_view>

namespace nvllm::server {
namespace {

constexpr size_t kLongestId = 128;

bool is_plain(std::string_view id) {
    return !id.empty() && id.size() <= kLongestId && std::ranges::all_of(id, [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
               (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
    });
}

// Null when there is none, or one that would not do in logs and headers.
const std::string* own_id(const HttpRequest& head) {
    const std::string* given = head.header("X-Request-Id");
    return given != nullptr && is_plain(*given) ? given : nullptr;
}

}  // namespace

RequestIds::RequestIds() : instance_(fmt::format("{:08x}", std::random_device{}())) {}

std::string RequestIds::next(const HttpRequest& head) {
    const std::string* own = own_id(head);
    return fmt::format("{}-{:x}", own != nullptr ? *own : instance_, next_number_++);
}

HttpHeader RequestIds::header(const HttpRequest& head, const std::string& name) {
    const std::string* own = own_id(head);
    return {"x-request-id", own != nullptr ? *own : name};
}

}  // namespace nvllm::server
