// Every route there is, in one table: who may use it, where it runs, what it is for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nvllm::server {

enum class RouteAccess {
    open,     // anybody
    user,     // a key, when there are keys
    metrics,  // as user, and at the metrics port anybody
    admin,    // at the administration's socket only
};

enum class RouteAction {
    page,
    live,
    ready,
    version,
    load,
    scrape,
    openapi,
    status,
    models,
    model,
    completions,
    chat_completions,
    embeddings,
    tokenize,
    detokenize,
    tokenizer_info,
    drain,
    reload_keys,
    resize_cache,
    dump_state,
    timeline,
    load_model,
    unload_model,
};

struct Route {
    std::string_view method;
    std::string_view path;  // ending with "/*": anything below
    RouteAccess access;
    RouteAction action;
    bool is_off_loop;  // reads or writes enough that the I/O thread must not do it
    bool has_json_body;
    std::string_view summary;
};

std::span<const Route> route_table();

// By path alone, which may end with a slash more; null when no route has it. Of several methods the
// first.
const Route* find_route(std::string_view path);
const Route* find_route(std::string_view method, std::string_view path);
// A route's path that somebody may have meant who asked for `path`: one that is written differently
// before or after it ("/chat/completions", "/v1/v1/models").
std::optional<std::string> nearest_path(std::string_view path);
// "GET, HEAD, OPTIONS", as the Allow header has it; of all routes for "*".
std::string allowed_methods(std::string_view path);

}  // namespace nvllm::server
