// Bytes as HTTP: cut into pieces or not, the same requests come out before the rest is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/http/http_reader.h"

namespace {

using nvllm::server::HttpLimits;
using nvllm::server::HttpReader;
using nvllm::server::HttpRequest;

constexpr HttpLimits kLimits = {
    .max_header_bytes = 1024, .max_headers = 8, .max_target_bytes = 64, .max_body_bytes = 256};

// Ends whatever is under way: no head, body or framing goes on for so long.
constexpr size_t kEnd = 10'000;

void check(const HttpRequest& request) {
    const bool is_within = request.headers.size() <= static_cast<size_t>(kLimits.max_headers) &&
                           request.target.size() <= kLimits.max_target_bytes &&
                           request.body.size() <= kLimits.max_body_bytes;
    bool is_plain = true;
    for (const auto& header : request.headers) {
        for (const char letter : {'\r', '\n', '\0'}) {
            is_plain = is_plain && header.value.find(letter) == std::string::npos &&
                       header.name.find(letter) == std::string::npos;
        }
    }
    if (!is_within || !is_plain) std::abort();
}

// A reader may wait for a few more bytes before it refuses, so what is compared is what came out
// before it did.
std::vector<std::string> requests_in(std::string_view bytes, size_t piece) {
    HttpReader reader(kLimits);
    std::vector<std::string> requests;
    const auto feed = [&](std::string_view part) {
        reader.feed(part);
        while (reader.stage() == HttpReader::Stage::done) {
            const HttpRequest request = reader.take();
            check(request);
            requests.push_back(request.method + " " + request.target + " " + request.body);
        }
    };
    while (!bytes.empty()) {
        feed(bytes.substr(0, piece));
        bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    feed(std::string(kEnd, 'x'));
    const bool is_refused = reader.stage() == HttpReader::Stage::refused;
    if (!is_refused || reader.error().status < 400) std::abort();
    return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::vector<std::string> whole = requests_in(bytes, bytes.size());
    const bool is_same =
        requests_in(bytes, 1) == whole && requests_in(bytes, 1 + data[0] % 64) == whole;
    if (!is_same) std::abort();
    return 0;
}
