// The headers of an upgrade.
#include "lib/server/http/websocket_upgrade.h"

#include <algorithm>

namespace nvllm::server {
namespace {

// Sixteen bytes in base64.
constexpr size_t kKeyLength = 24;

bool lists(const std::string* header, std::string_view word) {
    if (header == nullptr) return false;
    std::string_view rest = *header;
    while (true) {
        std::string_view one = rest.substr(0, rest.find(','));
        one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
        one = one.substr(0, one.find_last_not_of(' ') + 1);
        if (equal_ignoring_case(one, word)) return true;
        if (rest.find(',') == std::string_view::npos) return false;
        rest.remove_prefix(rest.find(',') + 1);
    }
}

ApiError bad_upgrade(int status, std::string message) {
    return {.status = status, .message = std::move(message), .code = "bad_upgrade"};
}

}  // namespace

bool wants_websocket(const HttpRequest& request) {
    const std::string* upgrade = request.header("Upgrade");
    return request.method == "GET" && upgrade != nullptr &&
           equal_ignoring_case(*upgrade, "websocket");
}

std::optional<ApiError> check_upgrade(const HttpRequest& request) {
    const std::string* version = request.header("Sec-WebSocket-Version");
    const std::string* key = request.header("Sec-WebSocket-Key");
    if (version == nullptr || *version != "13") {
        return bad_upgrade(426,
                           "WebSocket is spoken here in version 13: send "
                           "Sec-WebSocket-Version: 13");
    }
    if (!lists(request.header("Connection"), "upgrade") || request.version < 11) {
        return bad_upgrade(400, "a WebSocket needs HTTP/1.1 and Connection: Upgrade");
    }
    if (key == nullptr || key->size() != kKeyLength) {
        return bad_upgrade(400, "a WebSocket needs a Sec-WebSocket-Key of 16 bytes in base64");
    }
    return std::nullopt;
}

}  // namespace nvllm::server
