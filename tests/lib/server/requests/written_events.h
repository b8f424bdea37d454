// What a writer makes of made-up news, read back as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/server/requests/response_writer.h"

namespace nvllm::server::test {

using EventJson = nlohmann::ordered_json;

inline ChoiceNews news_of(OutputDelta said, std::optional<FinishReason> reason = {},
                          bool has_called = false) {
    ChoiceNews news;
    news.said = std::move(said);
    news.finish_reason = reason;
    news.has_called = has_called;
    return news;
}

// A thought, a text and a call, in pieces.
inline std::vector<ChoiceNews> thought_text_and_call() {
    std::vector<ChoiceNews> all;
    all.push_back(news_of({.reasoning = "Hm"}));
    all.push_back(news_of({.reasoning = "m.", .content = "One "}));
    all.push_back(news_of({.content = "moment."}));
    all.push_back(news_of({.tool_calls = {{0, "id0", "f", "{\"a\":1}"}}}, {}, true));
    all.push_back(news_of({.tool_calls = {{1, "id1", "g", "{}"}}}, FinishReason::stop, true));
    return all;
}

// The same as one.
inline ChoiceNews whole_of(std::vector<ChoiceNews> pieces) {
    ChoiceNews whole = std::move(pieces.back());
    OutputDelta said;
    pieces.pop_back();
    for (ChoiceNews& piece : pieces) said.merge(std::move(piece.said));
    said.merge(std::move(whole.said));
    whole.said = std::move(said);
    return whole;
}

inline StreamEvents stream_of(ResponseWriter& writer, std::vector<ChoiceNews> pieces,
                              const Usage& usage) {
    StreamEvents events;
    writer.begin(usage, events);
    for (ChoiceNews& piece : pieces) writer.news(std::move(piece), usage, events);
    writer.end(usage, events);
    return events;
}

inline std::vector<std::string> names_of(const StreamEvents& events) {
    std::vector<std::string> names;
    for (const StreamEvent& event : events) names.push_back(event.name);
    return names;
}

}  // namespace nvllm::server::test
