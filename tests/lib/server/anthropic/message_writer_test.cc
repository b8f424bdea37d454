// Messages of the Anthropic API, whole and as events.
#include "lib/server/anthropic/message_writer.h"

#include <doctest/doctest.h>

#include "tests/lib/server/requests/written_events.h"

using namespace nvllm;
using namespace nvllm::server;
using namespace nvllm::server::test;
using nvllm::server::anthropic::MessageWriter;
using Json = EventJson;
using Names = std::vector<std::string>;

namespace {

const Usage kUsage{10, 7, 4};

Json stop_of(ChoiceNews news) {
    GenerationRequest request;
    MessageWriter writer(request, "msg_1", "m");
    const Json message = Json::parse(writer.whole({std::move(news)}, kUsage));
    return Json::array({message["stop_reason"], message["stop_sequence"]});
}

}  // namespace

TEST_CASE("messages: the whole one") {
    GenerationRequest request;
    MessageWriter writer(request, "msg_1", "m");
    const Json message = Json::parse(writer.whole({whole_of(thought_text_and_call())}, kUsage));
    CHECK(message["id"] == "msg_1");
    CHECK(message["type"] == "message");
    CHECK(message["role"] == "assistant");
    CHECK(message["model"] == "m");
    CHECK(message["stop_reason"] == "tool_use");
    REQUIRE(message["content"].size() == 4);
    CHECK(message["content"][0]["type"] == "thinking");
    CHECK(message["content"][0]["thinking"] == "Hmm.");
    CHECK(message["content"][0]["signature"].get<std::string>().size() == 9);
    CHECK(message["content"][1] == Json{{"type", "text"}, {"text", "One moment."}});
    CHECK(message["content"][2] ==
          Json{{"type", "tool_use"}, {"id", "id0"}, {"name", "f"}, {"input", {{"a", 1}}}});
    CHECK(message["usage"] == Json{{"input_tokens", 6},
                                   {"cache_creation_input_tokens", 0},
                                   {"cache_read_input_tokens", 4},
                                   {"output_tokens", 7}});
}

TEST_CASE("messages: why they ended") {
    CHECK(stop_of(news_of({.content = "a"}, FinishReason::stop)) == Json{"end_turn", nullptr});
    CHECK(stop_of(news_of({.content = "a"}, FinishReason::length)) == Json{"max_tokens", nullptr});
    CHECK(stop_of(news_of({}, FinishReason::length, true)) == Json{"max_tokens", nullptr});
    ChoiceNews stopped = news_of({.content = "a"}, FinishReason::stop);
    stopped.stop_reason = "END";
    CHECK(stop_of(std::move(stopped)) == Json{"stop_sequence", "END"});
}

TEST_CASE("messages: events are of one block after the other") {
    GenerationRequest request;
    MessageWriter writer(request, "msg_1", "m");
    const StreamEvents events = stream_of(writer, thought_text_and_call(), kUsage);
    CHECK(names_of(events) ==
          Names{"message_start", "ping", "content_block_start", "content_block_delta",
                "content_block_delta", "content_block_delta", "content_block_stop",
                "content_block_start", "content_block_delta", "content_block_delta",
                "content_block_stop", "content_block_start", "content_block_delta",
                "content_block_stop", "content_block_start", "content_block_delta",
                "content_block_stop", "message_delta", "message_stop"});
    std::vector<Json> blocks;
    for (const StreamEvent& event : events) {
        const Json json = Json::parse(event.data);
        CHECK(json["type"] == event.name);
        if (event.name == "content_block_start") {
            CHECK(json["index"] == blocks.size());
            blocks.push_back(json["content_block"]);
            blocks.back()["joined"] = "";
        }
        if (event.name != "content_block_delta") continue;
        CHECK(json["index"] == blocks.size() - 1);
        const Json& delta = json["delta"];
        for (const char* key : {"text", "thinking", "partial_json"}) {
            if (delta.contains(key)) {
                blocks.back()["joined"] =
                    blocks.back()["joined"].get<std::string>() + delta[key].get<std::string>();
            }
        }
    }
    REQUIRE(blocks.size() == 4);
    CHECK(blocks[0]["joined"] == "Hmm.");
    CHECK(blocks[1]["joined"] == "One moment.");
    CHECK(blocks[2]["joined"] == "{\"a\":1}");
    CHECK(blocks[2]["name"] == "f");
    CHECK(blocks[2]["input"] == Json::object());
    const Json delta = Json::parse(events[events.size() - 2].data);
    CHECK(delta["delta"]["stop_reason"] == "tool_use");
    CHECK(delta["usage"]["output_tokens"] == 7);
    const Json start = Json::parse(events[0].data)["message"];
    CHECK(start["content"] == Json::array());
    CHECK(start["stop_reason"] == nullptr);
}

TEST_CASE("messages: without the thought, and an error as an event") {
    GenerationRequest request;
    request.include_reasoning = false;
    MessageWriter writer(request, "msg_1", "m");
    const Json message = Json::parse(writer.whole({whole_of(thought_text_and_call())}, kUsage));
    CHECK(message["content"][0]["type"] == "text");
    StreamEvents events;
    writer.failure({.status = 503, .message = "full"}, events);
    CHECK(events[0].name == "error");
    CHECK(Json::parse(events[0].data) ==
          Json{{"type", "error"}, {"error", {{"type", "overloaded_error"}, {"message", "full"}}}});
}
