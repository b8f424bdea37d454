// Names and help of the options on hosts and origins.
#include "lib/server/access/filter_options.h"

namespace nvllm::server {
OptionList<FilterOptions> filter_options() {
    OptionList<FilterOptions> list("api");
    list.group("Access");
    list.add("metrics-without-key", &FilterOptions::metrics_without_key,
             "GET /metrics needs no key.");
    list.add("allowed-origins", &FilterOptions::allowed_origins,
             "Web pages of this origin may ask (CORS), such as https://*.example.org; *: all.",
             value_name("ORIGIN"), default_text("none but local ones"), takes_several());
    list.add("local-origins", &FilterOptions::local_origins,
             "Pages of http://localhost and desktop programs (app, file, tauri, vscode-webview) "
             "may ask without being named.");
    list.add("allowed-hosts", &FilterOptions::allowed_hosts,
             "Host names that clients may use besides the address itself.", value_name("NAME"),
             default_text("any, unless listening at the loopback"));
    list.add("allow-runtime-lora-updating", &FilterOptions::changes_adapters,
             "POST /v1/load_lora_adapter and /v1/unload_lora_adapter are for every user, who can "
             "have any folder read, and not for the administration's socket alone.");
    return list;
}

}  // namespace nvllm::server
