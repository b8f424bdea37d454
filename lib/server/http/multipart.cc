// Cuts a body at its boundary and reads the heads of the parts.
#include "lib/server/http/multipart.h"

#include <fmt/format.h>

#include <optional>

#include "lib/server/http/http_message.h"

namespace nvllm::server {
namespace {

constexpr size_t kMaxFields = 64;
constexpr std::string_view kLineEnd = "\r\n";

Fault malformed(std::string_view complaint) {
    return {ErrorKind::bad_data, fmt::format("the form cannot be read: {}", complaint), "",
            "invalid_form"};
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

// Takes the value of a parameter, in quotes or without, from the front of `rest`.
std::string take_value(std::string_view& rest) {
    std::string value;
    if (!rest.starts_with('"')) {
        const std::string_view plain = rest.substr(0, rest.find(';'));
        rest.remove_prefix(plain.size());
        return std::string(trimmed(plain));
    }
    rest.remove_prefix(1);
    while (!rest.empty() && rest.front() != '"') {
        if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
        value += rest.front();
        rest.remove_prefix(1);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    return value;
}

// `name` of "type; first=1; name=value".
std::optional<std::string> parameter_of(std::string_view header, std::string_view name) {
    size_t at = header.find(';');
    while (at != std::string_view::npos) {
        std::string_view rest = trimmed(header.substr(at + 1));
        const size_t equals = rest.find('=');
        if (equals == std::string_view::npos) return std::nullopt;
        const std::string key(trimmed(rest.substr(0, equals)));
        rest = trimmed(rest.substr(equals + 1));
        std::string value = take_value(rest);
        if (equal_ignoring_case(key, name)) return value;
        at = rest.find(';');
        header = rest;
    }
    return std::nullopt;
}

// The value of Content-Disposition in the head of a part.
std::string_view disposition_of(std::string_view head) {
    constexpr std::string_view kName = "content-disposition";
    while (!head.empty()) {
        const size_t end = std::min(head.find(kLineEnd), head.size());
        const std::string_view line = head.substr(0, end);
        const size_t colon = line.find(':');
        if (colon != std::string_view::npos &&
            equal_ignoring_case(std::string(trimmed(line.substr(0, colon))), std::string(kName))) {
            return line.substr(colon + 1);
        }
        head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
    }
    return {};
}

Result<FormField> read_part(std::string_view part) {
    const size_t head_end = part.find("\r\n\r\n");
    if (head_end == std::string_view::npos) return malformed("a part has no head");
    const std::string_view disposition = disposition_of(part.substr(0, head_end));
    auto name = parameter_of(disposition, "name");
    if (!name) return malformed("a part has no name");
    return FormField{std::move(*name), parameter_of(disposition, "filename").value_or(""),
                     part.substr(head_end + 4)};
}

}  // namespace

Result<std::vector<FormField>> read_form(std::string_view content_type, std::string_view body) {
    const std::string type(trimmed(content_type.substr(0, content_type.find(';'))));
    if (!equal_ignoring_case(type, "multipart/form-data")) {
        return malformed("its Content-Type is not multipart/form-data");
    }
    const auto boundary = parameter_of(content_type, "boundary");
    if (!boundary || boundary->empty()) return malformed("its Content-Type names no boundary");
    const std::string first = "--" + *boundary;
    const std::string mark = "\r\n" + first;
    if (!body.starts_with(first)) return malformed("it does not begin with its boundary");
    body.remove_prefix(first.size());
    std::vector<FormField> fields;
    while (!body.starts_with("--")) {
        if (!body.starts_with(kLineEnd)) return malformed("a boundary does not end its line");
        body.remove_prefix(kLineEnd.size());
        const size_t end = body.find(mark);
        if (end == std::string_view::npos) return malformed("its last part has no end");
        auto field = read_part(body.substr(0, end));
        if (!field) return field.fault();
        if (fields.size() == kMaxFields) return malformed("it has too many parts");
        fields.push_back(std::move(*field));
        body.remove_prefix(end + mark.size());
    }
    return fields;
}

}  // namespace nvllm::server
