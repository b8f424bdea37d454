// Patterns, and the origins that are local.
#include "lib/server/access/origins.h"

#include <algorithm>
#include <array>

#include "lib/server/http/address_options.h"

namespace nvllm::server {
namespace {

// As Ollama has them; Tauri's windows have an address of their own on Windows and Android.
constexpr std::array<std::string_view, 15> kLocalOrigins = {"http://localhost:*",
                                                            "https://localhost:*",
                                                            "http://127.0.0.1:*",
                                                            "https://127.0.0.1:*",
                                                            "http://0.0.0.0:*",
                                                            "https://0.0.0.0:*",
                                                            "http://[::1]:*",
                                                            "https://[::1]:*",
                                                            "app://*",
                                                            "file://*",
                                                            "tauri://*",
                                                            "http://tauri.localhost",
                                                            "https://tauri.localhost",
                                                            "vscode-webview://*",
                                                            "vscode-file://*"};

constexpr std::string_view kAnyPort = ":*";

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool is_of_host(char letter) {
    return is_digit(letter) || (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z') || letter == '-' || letter == '.' || letter == '_';
}

// `*`: a run of letters of a host, perhaps none.
bool matches_run(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return text.empty();
    if (pattern[0] != '*') {
        return !text.empty() && text[0] == pattern[0] &&
               matches_run(pattern.substr(1), text.substr(1));
    }
    for (size_t length = 0;; ++length) {
        if (matches_run(pattern.substr(1), text.substr(length))) return true;
        if (length == text.size() || !is_of_host(text[length])) return false;
    }
}

std::string_view without_scheme(std::string_view origin) {
    const size_t scheme = origin.find("://");
    return scheme == std::string_view::npos ? "" : origin.substr(scheme + 3);
}

// ":8000", or nothing.
std::string_view port_of(std::string_view host) {
    const size_t end = host.starts_with('[') ? host.find(']') : 0;
    const size_t colon = end == std::string_view::npos ? end : host.find(':', end);
    return colon == std::string_view::npos ? "" : host.substr(colon);
}

}  // namespace

std::string_view without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
    return host.substr(0, host.rfind(':'));
}

bool matches_origin(std::string_view pattern, std::string_view origin) {
    if (pattern == "*") return true;
    if (!pattern.ends_with(kAnyPort)) return matches_run(pattern, origin);
    pattern.remove_suffix(kAnyPort.size());
    size_t num_digits = 0;
    while (num_digits < origin.size() && is_digit(origin[origin.size() - 1 - num_digits])) {
        ++num_digits;
    }
    const size_t end = origin.size() - num_digits;
    const bool has_port = num_digits > 0 && end > 0 && origin[end - 1] == ':';
    return matches_run(pattern, origin) ||
           (has_port && matches_run(pattern, origin.substr(0, end - 1)));
}

bool is_local_origin(std::string_view origin) {
    return std::ranges::any_of(
        kLocalOrigins, [&](std::string_view pattern) { return matches_origin(pattern, origin); });
}

bool is_same_origin(std::string_view origin, std::string_view host) {
    const std::string_view own = without_scheme(origin);
    if (own.empty()) return false;
    if (own == host) return true;
    return is_loopback(without_port(own)) && is_loopback(without_port(host)) &&
           port_of(own) == port_of(host);
}

}  // namespace nvllm::server
