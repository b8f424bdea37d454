// A client of any OpenAI server: streams completions and records when each token came.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/measure/engine_load.h"
#include "lib/measure/serving/http_load.h"
#include "lib/measure/workload.h"

namespace nvllm {

class Tokenizer;

struct ServingOptions {
    HttpLoadOptions http;  // http.path decides between completions and chat
    std::string model;     // as the server knows it
    double temperature = 0.0;
    bool ignore_eos = true;  // sent when an item says so; vLLM and this project take it
    std::string extra_body;  // a JSON object whose fields join every request; empty: none
    // A JSON schema that every answer is held to, as OpenAI's response_format; empty: none. Such an
    // answer ends where the schema lets it: ignore_eos is not sent.
    std::string schema;
    // Counts tokens where the server sends no usage; null: streamed outputs are counted.
    const Tokenizer* tokenizer = nullptr;
};

bool is_chat(const std::string& path);

// The body of one request. Texts are sent as such, ids as a list where there is no text
// (completions only). REQUIRES: chat items have text.
std::string request_body(const WorkItem& item, const ServingOptions& options);

// Sends all items at their times. When a stop signal comes, the requests that had ended;
// Interrupted (engine_load.h) when there is none. A request has failed when its connection broke,
// the status was not 200, an event was no JSON or an error, nothing was generated, or the stream
// ended before [DONE] or a finish reason.
LoadResult measure_serving(std::span<const WorkItem> items, const ServingOptions& options);

// The first model that GET /v1/models names. Throws unavailable when the server cannot be reached,
// bad_data when the answer is not what OpenAI servers say.
std::string served_model(const HttpLoadOptions& http);

}  // namespace nvllm
