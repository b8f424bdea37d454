// Memory check and error responses around a handler.
#include "lib/server/routes/dispatch.h"

#include <functional>
#include <new>

namespace nvllm::server {
namespace {

// Reading a body and turning it into tokens takes less memory than so many times its size.
constexpr size_t kMaxBodyFactor = 8;
constexpr size_t kSmallRequestBody = 32 * 1024;

// The size of the work is the client's choice. Administration is none of it: that must be possible
// without memory.
bool is_sized_by_client(const Route& route) {
    return route.has_json_body && route.access == RouteAccess::user;
}

// Admitted requests come before new ones.
bool has_memory_for(const HttpRequest& request, const MemoryReserve& reserve) {
    const bool is_small = request.body.size() <= kSmallRequestBody;
    return reserve.is_whole() &&
           (is_small || can_have_memory(kMaxBodyFactor * request.body.size()));
}

}  // namespace

void run_route(const Route& route, RouteContext& context, const TransactionPointer& transaction) {
    run_handler(transaction, [&] {
        if (is_sized_by_client(route) && !has_memory_for(transaction->request(), context.reserve)) {
            return transaction->respond(error_response(out_of_memory()));
        }
        route.handle(context, transaction);
    });
}

void run_handler(const TransactionPointer& transaction, const std::function<void()>& handler) {
    try {
        handler();
    } catch (const std::bad_alloc&) {
        transaction->respond(error_response(out_of_memory()));
    } catch (const Error& error) {
        transaction->respond(error_response(api_error(Fault{error.kind(), error.what()})));
    } catch (const std::exception&) {
        transaction->respond(error_response({.status = 500,
                                             .message = "the request could not be answered",
                                             .code = "internal_error"}));
    }
}

}  // namespace nvllm::server
