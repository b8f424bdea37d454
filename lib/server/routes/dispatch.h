// Runs the handler of a route and turns every exception into a response.
#pragma once

#include <functional>

#include "lib/server/routes/route_context.h"

namespace nvllm::server {

// Throws nothing. A route that tokenizes or computes is refused while memory is short.
void run_route(const Route& route, RouteContext& context, const TransactionPointer& transaction);
// The same for a part of a handler that runs later, on another thread.
void run_handler(const TransactionPointer& transaction, const std::function<void()>& handler);

}  // namespace nvllm::server
