// Names, help and ranges of the options on addresses.
#include "lib/server/http/address_options.h"

namespace nvllm::server {
OptionList<AddressOptions> address_options() {
    OptionList<AddressOptions> list("api");
    list.group("Addresses");
    list.add("host", &AddressOptions::host, "Address to listen at; 0.0.0.0: all of this machine.");
    list.add("port", &AddressOptions::port, "0: any free one, which the log names.",
             range(0, 65535));
    list.add("uds", &AddressOptions::unix_socket,
             "Listen at this Unix socket instead of host and port; its group may use it as well.",
             value_name("PATH"), default_text("none"));
    list.add("admin-socket", &AddressOptions::admin_socket,
             "Administration at this Unix socket, which only you can open.", value_name("PATH"),
             default_text("none"));
    list.add("metrics-port", &AddressOptions::metrics_port,
             "A port on the loopback for metrics and health alone.", range(0, 65535),
             default_text("none"));
    list.add("ssl-certfile", &AddressOptions::tls_certificate, "Certificate chain (PEM) for TLS.",
             value_name("FILE"), default_text("no TLS"));
    list.add("ssl-keyfile", &AddressOptions::tls_key, "The certificate's key (PEM).",
             value_name("FILE"), default_text("in the certificate's file"));
    return list;
}

bool is_loopback(std::string_view host) {
    const bool is_number = host.find_first_not_of("0123456789.") == std::string_view::npos;
    return host == "localhost" || host == "::1" || (is_number && host.starts_with("127."));
}

}  // namespace nvllm::server
