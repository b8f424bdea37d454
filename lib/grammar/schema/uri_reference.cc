#include "lib/grammar/schema/uri_reference.h"

#include <algorithm>
#include <optional>

namespace nvllm {
namespace {

struct Uri {
    std::optional<std::string_view> scheme = {}, authority = {};
    std::string_view path = {};
    std::optional<std::string_view> query = {}, fragment = {};
};

// Takes what stands before the first of `marks`; all of it where there is none.
std::string_view take_until(std::string_view& rest, std::string_view marks) {
    const size_t end = std::min(rest.find_first_of(marks), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(end);
    return part;
}

Uri parsed(std::string_view rest) {
    Uri uri;
    const size_t end = rest.find_first_of(":/?#");
    if (end != std::string_view::npos && end > 0 && rest[end] == ':') {
        uri.scheme = rest.substr(0, end);
        rest.remove_prefix(end + 1);
    }
    if (rest.starts_with("//")) {
        rest.remove_prefix(2);
        uri.authority = take_until(rest, "/?#");
    }
    uri.path = take_until(rest, "?#");
    if (rest.starts_with('?')) {
        rest.remove_prefix(1);
        uri.query = take_until(rest, "#");
    }
    if (rest.starts_with('#')) uri.fragment = rest.substr(1);
    return uri;
}

// "/a/b/../c" is "/a/c".
std::string without_dots(std::string_view path) {
    std::string out;
    while (!path.empty()) {
        const size_t next = path.find('/', 1);
        const std::string_view segment = path.substr(0, next);
        path.remove_prefix(segment.size());
        const std::string_view name = segment.substr(segment.starts_with('/') ? 1 : 0);
        if (name == "..") out.resize(std::min(out.rfind('/'), out.size()));
        if (name != "." && name != "..") {
            out += segment;
        } else if (path.empty()) {
            out += '/';
        }
    }
    return out;
}

std::string merged_path(const Uri& base, std::string_view path) {
    if (path.starts_with('/')) return without_dots(path);
    if (base.authority && base.path.empty()) return without_dots("/" + std::string(path));
    const size_t last = base.path.rfind('/');
    const size_t kept = last == std::string_view::npos ? 0 : last + 1;
    return without_dots(std::string(base.path.substr(0, kept)) + std::string(path));
}

}  // namespace

std::string resolved_uri(std::string_view base_text, std::string_view reference) {
    const Uri base = parsed(base_text);
    const Uri given = parsed(reference);
    std::string path(given.path);
    auto scheme = given.scheme, authority = given.authority, query = given.query;
    if (!scheme && !authority) {
        authority = base.authority;
        if (given.path.empty()) {
            path = base.path;
            if (!query) query = base.query;
        } else {
            path = merged_path(base, given.path);
        }
    }
    if (!scheme) scheme = base.scheme;
    std::string uri;
    if (scheme) uri += std::string(*scheme) + ":";
    if (authority) uri += "//" + std::string(*authority);
    uri += path;
    if (query) uri += "?" + std::string(*query);
    if (given.fragment) uri += "#" + std::string(*given.fragment);
    return uri;
}

}  // namespace nvllm
