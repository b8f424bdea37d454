// Responses of /v1/responses, whole and as events, and what is kept of them.
#include "lib/server/responses/response_object_writer.h"

#include <doctest/doctest.h>

#include "tests/lib/server/requests/written_events.h"

using namespace nvllm;
using namespace nvllm::server;
using namespace nvllm::server::test;
using Json = EventJson;

namespace {

const Usage kUsage{10, 7, 4, 2};

struct MadeWriter {
    GenerationRequest request;
    ResponseStore store{{}};
    std::optional<ResponseObjectWriter> writer;

    explicit MadeWriter(bool is_stored = true) {
        request.inputs.emplace_back();
        ResponseSettings settings;
        settings.instructions = "null";
        settings.reasoning = "{}";
        settings.text = R"({"format":{"type":"text"}})";
        settings.messages = R"([{"role":"user","content":"Hi"}])";
        settings.is_stored = is_stored;
        writer.emplace(request, std::move(settings), ResponseObjectWriter::Head{"7", "m", "me"},
                       store);
    }
};

}  // namespace

TEST_CASE("responses: the whole one, and its conversation") {
    MadeWriter made;
    const std::string body = made.writer->whole({whole_of(thought_text_and_call())}, kUsage);
    const Json response = Json::parse(body);
    CHECK(response["id"] == "resp_7");
    CHECK(response["status"] == "completed");
    CHECK(response["error"] == nullptr);
    REQUIRE(response["output"].size() == 4);
    CHECK(response["output"][0]["type"] == "reasoning");
    CHECK(response["output"][0]["content"][0]["text"] == "Hmm.");
    CHECK(response["output"][1]["content"][0]["text"] == "One moment.");
    CHECK(response["output"][2]["call_id"] == "id0");
    CHECK(response["output"][2]["arguments"] == "{\"a\":1}");
    CHECK(response["output"][3]["name"] == "g");
    CHECK(response["usage"]["output_tokens_details"]["reasoning_tokens"] == 2);
    CHECK(response["usage"]["total_tokens"] == 17);
    const auto kept = made.store.find("me", "resp_7");
    REQUIRE(kept != nullptr);
    CHECK(kept->body == body);
    const Json messages = Json::parse(kept->messages);
    REQUIRE(messages.size() == 2);
    CHECK(messages[1]["role"] == "assistant");
    CHECK(messages[1]["content"] == "One moment.");
    CHECK(messages[1]["reasoning_content"] == "Hmm.");
    CHECK(messages[1]["tool_calls"][1]["function"]["name"] == "g");
}

TEST_CASE("responses: what is not to be kept is not") {
    MadeWriter made(false);
    made.writer->whole({whole_of(thought_text_and_call())}, kUsage);
    CHECK(made.store.find("me", "resp_7") == nullptr);
}

TEST_CASE("responses: numbered events in order, and the whole at the end") {
    MadeWriter made;
    const StreamEvents events = stream_of(*made.writer, thought_text_and_call(), kUsage);
    const std::vector<std::string> text = {"content_part.added", "TEXT.delta", "TEXT.delta",
                                           "TEXT.done", "content_part.done"};
    std::vector<std::string> expected = {"created", "in_progress"};
    for (const char* kind : {"reasoning_text", "output_text"}) {
        expected.emplace_back("output_item.added");
        for (std::string name : text) {
            if (name.starts_with("TEXT")) name.replace(0, 4, kind);
            expected.push_back(std::move(name));
        }
        expected.emplace_back("output_item.done");
    }
    for (int call = 0; call < 2; ++call) {
        for (const char* name : {"output_item.added", "function_call_arguments.delta",
                                 "function_call_arguments.done", "output_item.done"})
            expected.emplace_back(name);
    }
    expected.emplace_back("completed");
    for (std::string& name : expected) name = "response." + name;
    CHECK(names_of(events) == expected);
    std::vector<Json> done;
    for (size_t i = 0; i < events.size(); ++i) {
        const Json event = Json::parse(events[i].data);
        CHECK(event["sequence_number"] == i);
        CHECK(event["type"] == events[i].name);
        if (events[i].name == "response.output_item.done") done.push_back(event["item"]);
    }
    const Json last = Json::parse(events.back().data)["response"];
    CHECK(last["output"] == Json(done));
    MadeWriter other;
    CHECK(last == Json::parse(other.writer->whole({whole_of(thought_text_and_call())}, kUsage)));
    CHECK(Json::parse(events[0].data)["response"]["status"] == "in_progress");
    CHECK(Json::parse(events[0].data)["response"]["usage"] == nullptr);
    CHECK(made.store.find("me", "resp_7") != nullptr);
}

TEST_CASE("responses: one that was cut off, and one that failed") {
    MadeWriter made;
    StreamEvents events =
        stream_of(*made.writer, {news_of({.content = "a"}, FinishReason::length)}, kUsage);
    CHECK(events.back().name == "response.incomplete");
    const Json cut = Json::parse(events.back().data)["response"];
    CHECK(cut["status"] == "incomplete");
    CHECK(cut["incomplete_details"]["reason"] == "max_output_tokens");
    CHECK(cut["output"][0]["status"] == "incomplete");

    MadeWriter failed;
    events.clear();
    failed.writer->failure({.status = 503, .message = "full", .code = "queue_full"}, events);
    CHECK(Json::parse(events.back().data)["type"] == "error");
    failed.writer->begin(kUsage, events);
    failed.writer->failure({.status = 500, .message = "lost", .code = "x"}, events);
    const Json last = Json::parse(events.back().data);
    CHECK(last["type"] == "response.failed");
    CHECK(last["response"]["error"] == Json{{"code", "x"}, {"message", "lost"}});
    CHECK(failed.store.find("me", "resp_7") == nullptr);
}
