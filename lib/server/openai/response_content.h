// The `content` of a response in the OpenAPI document: media types and their schemas.
#pragma once

#include "lib/server/openai/response_fields.h"

namespace nvllm::server {

inline schema::Json media_content(const char* type, schema::Json schema) {
    schema::Json json = schema::Json::object();
    json[type]["schema"] = std::move(schema);
    return json;
}

// A JSON body of a type of response_types.h.
template <typename Response>
schema::Json json_content() {
    return media_content("application/json", schema::reference(Response::kName));
}

// A whole response, or with `stream` one event after the other.
template <typename Whole, typename Chunk>
schema::Json whole_or_stream_content() {
    schema::Json content = json_content<Whole>();
    schema::Json event =
        schema::any_of({schema::reference(Chunk::kName), schema::reference(responses::Error::kName),
                        schema::values({"[DONE]"})});
    event["description"] = "The data of each event; the last one is [DONE], after an error none.";
    content.update(media_content("text/event-stream", std::move(event)));
    return content;
}

// A JSON body without a type of its own: the administration's.
inline schema::Json any_json_content() {
    return media_content("application/json", schema::anything());
}

}  // namespace nvllm::server
