// The routes, each defined in the file of its name.
#pragma once

#include "lib/server/access/route.h"

namespace nvllm::server::routes {

extern const Route chat_page;
extern const Route live;
extern const Route ready, health, ping;  // ready.cc
extern const Route version;
extern const Route openapi;
extern const Route load;
extern const Route metrics;
extern const Route status;
extern const Route models, model;  // models.cc
extern const Route completions;
extern const Route chat_completions;
extern const Route render_chat;  // render.cc
extern const Route embeddings;
extern const Route upload_file, files, file, remove_file;       // batches/files.cc
extern const Route create_batch, batches, batch, cancel_batch;  // batches/batches.cc
extern const Route responses, response_tokens;                  // conversations/responses.cc
extern const Route stored_response, forgotten_response;         // conversations/responses.cc
extern const Route messages, count_tokens;                      // conversations/messages.cc
extern const Route tokenize;
extern const Route detokenize;
extern const Route tokenizer_info;

// scoring/
extern const Route score, plain_score;                      // score.cc
extern const Route rerank, plain_rerank, rerank_of_cohere;  // rerank.cc
extern const Route classify;

// admin/
extern const Route drain;
extern const Route reload_keys;
extern const Route resize_cache;
extern const Route reset_prefix_cache;  // reset_cache.cc
extern const Route dump_state;
extern const Route timeline;
extern const Route load_adapter, unload_adapter;  // change_adapters.cc
extern const Route load_model, unload_model;      // change_models.cc

}  // namespace nvllm::server::routes
