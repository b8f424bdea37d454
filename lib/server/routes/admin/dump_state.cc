// GET /admin/state: snapshots of all engines, of each replica one.
#include "lib/engine/inspection.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

constexpr std::chrono::seconds kSnapshotTimeout{5};

HttpResponse dump_state_response(const RouteContext& context, const HttpRequest&) {
    std::string text = "[";
    for (const auto& model : context.models.all()) {
        if (model->state() != ModelState::ready) continue;
        for (int32_t replica = 0; replica < model->engine()->memory_plan().num_replicas;
             ++replica) {
            auto future = model->engine()->snapshot(SnapshotDetail::full, replica);
            if (future.wait_for(kSnapshotTimeout) != std::future_status::ready) continue;
            if (text.size() > 1) text += ",";
            text += dump_text(future.get());
        }
    }
    HttpResponse response;
    response.body = text + "]";
    return response;
}

}  // namespace

constinit const Route routes::dump_state = {.method = "GET",
                                            .path = "/admin/state",
                                            .access = RouteAccess::admin,
                                            .summary = "Everything the engine keeps books on.",
                                            .is_off_loop = true,
                                            .schema = {.response = any_json_content},
                                            .handle = respond_at_once<dump_state_response>};

}  // namespace nvllm::server
