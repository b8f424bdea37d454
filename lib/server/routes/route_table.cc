// The table.
#include "lib/server/routes/route_table.h"

#include <array>

#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

constexpr std::array<const Route*, 49> kRoutes = {
    &routes::chat_page,
    &routes::live,
    &routes::ready,
    &routes::health,
    &routes::ping,
    &routes::version,
    &routes::openapi,
    &routes::load,
    &routes::metrics,
    &routes::status,
    &routes::models,
    &routes::model,
    &routes::completions,
    &routes::chat_completions,
    &routes::responses,
    &routes::response_tokens,  // before the paths that begin like it
    &routes::stored_response,
    &routes::forgotten_response,
    &routes::messages,
    &routes::count_tokens,
    &routes::embeddings,
    &routes::upload_file,
    &routes::files,
    &routes::file,
    &routes::remove_file,
    &routes::create_batch,
    &routes::batches,
    &routes::batch,
    &routes::cancel_batch,
    &routes::tokenize,
    &routes::detokenize,
    &routes::tokenizer_info,
    &routes::score,
    &routes::plain_score,
    &routes::rerank,
    &routes::plain_rerank,
    &routes::rerank_of_cohere,
    &routes::classify,
    &routes::render_chat,
    &routes::drain,
    &routes::reload_keys,
    &routes::resize_cache,
    &routes::reset_prefix_cache,
    &routes::dump_state,
    &routes::timeline,
    &routes::load_adapter,
    &routes::unload_adapter,
    &routes::load_model,
    &routes::unload_model,
};

}  // namespace

const RouteList& route_table() {
    static const RouteList list{kRoutes};
    return list;
}

}  // namespace nvllm::server
