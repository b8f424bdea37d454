// Strict JSON documents by nlohmann::json, with a depth limit.
#include "lib/checkpoint/json_document.h"

#include <fmt/format.h>

#include "kernels/error.h"

namespace nvllm {
namespace {

// nlohmann's message without its "[json.exception...]" tag, which means nothing to a user.
std::string reason_of(const nlohmann::json::exception& error) {
    const std::string text = error.what();
    const size_t tag_end = text.find("] ");
    return tag_end == std::string::npos ? text : text.substr(tag_end + 2);
}

}  // namespace

nlohmann::json parse_json_document(std::string_view text, const std::string& file_name) {
    using Event = nlohmann::json::parse_event_t;
    const auto limit_depth = [&](int depth, Event event, nlohmann::json&) {
        const bool opens = event == Event::object_start || event == Event::array_start;
        if (opens && depth >= kMaxJsonDepth) {
            throw Error(ErrorKind::bad_data, fmt::format("{}: JSON nested deeper than {} levels",
                                                         file_name, kMaxJsonDepth));
        }
        return true;
    };
    try {
        return nlohmann::json::parse(text.begin(), text.end(), limit_depth);
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: not valid JSON: {}", file_name, reason_of(error)));
    }
}

std::string quoted_for_message(std::string_view text) {
    constexpr size_t kShown = 80;
    const bool cut = text.size() > kShown;
    std::string quoted = "\"";
    for (const char c : text.substr(0, kShown)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte >= 0x7f) {
            quoted += fmt::format("\\x{:02x}", byte);
        } else {
            quoted += c;
        }
    }
    return quoted + (cut ? "...\"" : "\"");
}

}  // namespace nvllm
