// Options that say where the server listens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct AddressOptions {
    std::string host = "127.0.0.1";
    uint16_t port = 8000;               // 0: any free one
    std::filesystem::path unix_socket;  // in place of host and port
    std::filesystem::path admin_socket;
    std::optional<uint16_t> metrics_port;
    std::filesystem::path tls_certificate;
    std::filesystem::path tls_key;  // empty: in the certificate's file

    bool has_tls() const { return !tls_certificate.empty(); }
};

OptionList<AddressOptions> address_options();

// Whether `host` can only mean this machine: "localhost", "::1", "127.0.0.1" and its like; false
// for names that merely begin like an address.
bool is_loopback(std::string_view host);

}  // namespace nvllm::server
