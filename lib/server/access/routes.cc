// The table of routes.
#include "lib/server/access/routes.h"

#include <fmt/format.h>

#include <array>

namespace nvllm::server {
namespace {

using enum RouteAccess;
using enum RouteAction;

constexpr bool kOnLoop = false, kOffLoop = true;
constexpr bool kNoBody = false, kJsonBody = true;

constexpr std::array kRoutes = {
    Route{"GET", "/", open, page, kOnLoop, kNoBody, "A chat page."},
    Route{"GET", "/live", open, live, kOnLoop, kNoBody, "200 while the process answers."},
    Route{"GET", "/ready", open, ready, kOnLoop, kNoBody,
          "200 when requests are served, else 503 and what is going on."},
    Route{"GET", "/health", open, ready, kOnLoop, kNoBody, "The same."},
    Route{"GET", "/ping", open, ready, kOnLoop, kNoBody, "The same, as SageMaker asks."},
    Route{"GET", "/version", open, version, kOnLoop, kNoBody, "The program's version."},
    Route{"GET", "/openapi.json", open, openapi, kOnLoop, kNoBody, "This interface as a document."},
    Route{"GET", "/load", metrics, load, kOnLoop, kNoBody, "How many calls are under way."},
    Route{"GET", "/metrics", metrics, scrape, kOffLoop, kNoBody, "Prometheus metrics."},
    Route{"GET", "/nvllm/status", user, status, kOffLoop, kNoBody,
          "What the engine does, for people."},
    Route{"GET", "/v1/models", user, models, kOnLoop, kNoBody, "The models that are served."},
    Route{"GET", "/v1/models/*", user, model, kOnLoop, kNoBody, "One of them."},
    Route{"POST", "/v1/completions", user, completions, kOffLoop, kJsonBody, "Continues a text."},
    Route{"POST", "/v1/chat/completions", user, chat_completions, kOffLoop, kJsonBody,
          "Answers a conversation."},
    Route{"POST", "/v1/embeddings", user, embeddings, kOffLoop, kJsonBody, "Texts as vectors."},
    Route{"POST", "/tokenize", user, tokenize, kOffLoop, kJsonBody, "A text as token ids."},
    Route{"POST", "/detokenize", user, detokenize, kOffLoop, kJsonBody, "Token ids as a text."},
    Route{"GET", "/tokenizer_info", user, tokenizer_info, kOnLoop, kNoBody,
          "What clients that tokenize by these routes must know; of ?model=NAME."},
    Route{"POST", "/admin/drain", admin, drain, kOnLoop, kNoBody,
          "Takes no new requests and ends when all are answered."},
    Route{"POST", "/admin/keys/reload", admin, reload_keys, kOffLoop, kNoBody,
          "Reads the key file again."},
    Route{"POST", "/admin/cache/resize", admin, resize_cache, kOffLoop, kJsonBody,
          "Changes the key-value cache to a share of its plan."},
    Route{"GET", "/admin/state", admin, dump_state, kOffLoop, kNoBody,
          "Everything the engine keeps books on."},
    Route{"GET", "/admin/timeline", admin, timeline, kOffLoop, kNoBody,
          "What happened lately, as a trace for Perfetto; ?model=NAME."},
    Route{"POST", "/admin/models/load", admin, load_model, kOffLoop, kJsonBody,
          "Serves another model."},
    Route{"POST", "/admin/models/unload", admin, unload_model, kOffLoop, kJsonBody,
          "Stops serving a model when its requests have ended."},
};

bool matches(const Route& route, std::string_view path) {
    if (!route.path.ends_with("/*")) {
        const bool has_slash = path.size() > 2 && path.ends_with('/');
        return route.path == (has_slash ? path.substr(0, path.size() - 1) : path);
    }
    const std::string_view prefix = route.path.substr(0, route.path.size() - 1);
    return path.size() > prefix.size() && path.starts_with(prefix);
}

}  // namespace

std::span<const Route> route_table() { return kRoutes; }

const Route* find_route(std::string_view path) {
    for (const Route& route : kRoutes) {
        if (matches(route, path)) return &route;
    }
    return nullptr;
}

const Route* find_route(std::string_view method, std::string_view path) {
    if (method == "HEAD") method = "GET";
    for (const Route& route : kRoutes) {
        if (route.method == method && matches(route, path)) return &route;
    }
    return nullptr;
}

std::optional<std::string> nearest_path(std::string_view path) {
    constexpr std::string_view kApi = "/v1";
    const auto is_api = [](const Route* route) {
        return route != nullptr && route->access != admin && route->action != page;
    };
    if (const Route* route = find_route(fmt::format("{}{}", kApi, path)); is_api(route)) {
        return fmt::format("{}{}", kApi, path);
    }
    for (size_t at = path.find('/', 1); at != std::string_view::npos; at = path.find('/', at + 1)) {
        if (is_api(find_route(path.substr(at)))) return std::string(path.substr(at));
    }
    return std::nullopt;
}

std::string allowed_methods(std::string_view path) {
    bool has_get = false;
    std::string others;
    for (const Route& route : kRoutes) {
        if (path != "*" && !matches(route, path)) continue;
        if (route.method == "GET") {
            has_get = true;
        } else if (others.find(route.method) == std::string::npos) {
            others += fmt::format("{}, ", route.method);
        }
    }
    return (has_get ? "GET, HEAD, " : "") + others + "OPTIONS";
}

}  // namespace nvllm::server
