// A route of the server: method, path, class of access, schema and handler, in one object.
//
// Each route is defined in a file of its own in lib/server/routes; route_table.h lists them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "lib/server/http/http_transaction.h"
#include "lib/server/openai/parameters.h"

namespace nvllm::server {

// What handlers use: lib/server/routes/route_context.h. Nothing here needs to know its members.
struct RouteContext;

using TransactionPointer = std::shared_ptr<HttpTransaction>;

enum class RouteAccess {
    open,      // every client
    health,    // every client, also at the metrics port
    user,      // a key, if there are keys
    metrics,   // as user; at the metrics port every client
    admin,     // at the administration's socket only
    adapters,  // as admin, unless users may change adapters
};

// The body of a request, as a component of the OpenAPI document.
struct RequestBodySchema {
    CallKind kind;
    std::string_view name;
};

struct RouteSchema {
    // The `content` of a 200: media types and their schemas.
    nlohmann::ordered_json (*response)() = nullptr;
    std::optional<RequestBodySchema> body = {};
    // The `content` of a body that is none of these calls.
    nlohmann::ordered_json (*other_body)() = nullptr;
    std::string_view description = {};
    std::string_view query_parameter = {};  // an optional one
    // Named types that it refers to, besides response_schemas().
    nlohmann::ordered_json (*types)() = nullptr;
    std::string_view unavailable = {};  // describes a 503 whose body is a State; empty: none
};

struct Route {
    std::string_view method;
    std::string_view path;  // ending with "/*": every path below
    RouteAccess access;
    std::string_view summary;
    bool is_off_loop = false;    // takes too long for the I/O thread
    bool has_json_body = false;  // may also arrive over a WebSocket
    bool is_probe = false;       // served even when all connections are taken
    bool is_page = false;        // served only with --page
    ErrorForm errors = ErrorForm::openai;
    RouteSchema schema = {};
    // Responds, or has the response made elsewhere. May throw: dispatch.h turns exceptions into
    // responses.
    void (*handle)(RouteContext& context, const TransactionPointer& transaction) = nullptr;
};

}  // namespace nvllm::server
