// Texts of a choice, split, counted and with ids of calls.
#include "lib/server/requests/choice_output.h"

#include <doctest/doctest.h>

#include <set>

using namespace nvllm;
using namespace nvllm::server;

namespace {

ChoiceOutput output_of(const OutputFormat& format, const std::string& request = "r",
                       size_t choice = 0, HeldCalls held = {}) {
    auto parser = make_output_parser(format, {{{"f", ""}}, "<think>\n", std::move(held)});
    REQUIRE(parser);
    return {std::move(*parser), request, choice};
}

const char* const kCalls =
    "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

}  // namespace

TEST_CASE("choice output: without a parser all is content") {
    ChoiceOutput output({}, "r", 0);
    output.push(kCalls, 3);
    output.finish();
    CHECK(output.take().content == kCalls);
    CHECK(!output.has_called());
    CHECK(output.reasoning_tokens() == 0);
}

TEST_CASE("choice output: tokens of the reasoning, with the one that ends it") {
    ChoiceOutput output = output_of({"hermes", "qwen3"});
    output.push("Hm", 2);
    output.push("", 1);  // half a character
    output.push(".</think>", 1);
    output.push("Yes", 5);
    output.push(".", 1);
    output.finish();
    CHECK(output.reasoning_tokens() == 4);
    const OutputDelta said = output.take();
    CHECK(said.reasoning == "Hm.");
    CHECK(said.content == "Yes.");
    CHECK(!output.has_news());
}

TEST_CASE("choice output: ids of calls come from the request, the choice and the call") {
    std::set<std::string> ids;
    for (const char* request : {"r", "s"}) {
        for (const size_t choice : {0, 1}) {
            ChoiceOutput output = output_of({"hermes", ""}, request, choice);
            ChoiceOutput again = output_of({"hermes", ""}, request, choice);
            output.push(kCalls, 1);
            for (const char letter : std::string(kCalls)) again.push({&letter, 1}, 1);
            output.finish();
            again.finish();
            CHECK(output.has_called());
            const OutputDelta said = output.take();
            const OutputDelta same = again.take();
            REQUIRE(said.tool_calls.size() == 2);
            REQUIRE(same.tool_calls.size() == 2);
            for (size_t i = 0; i < 2; ++i) {
                CHECK(said.tool_calls[i].id == same.tool_calls[i].id);
                CHECK(said.tool_calls[i].id.size() == 9);
                ids.insert(said.tool_calls[i].id);
            }
        }
    }
    CHECK(ids.size() == 8);
}

TEST_CASE(
    "choice output: a held call has one id, and is none that ends the answer where it is cut") {
    const std::string text = kCalls;
    for (const size_t length : {text.size(), text.find("1}}")}) {
        ChoiceOutput output = output_of({"hermes", ""}, "r", 0, {.begin = "<tool_call>"});
        OutputDelta said;
        size_t num_pieces = 0;
        for (const char letter : text.substr(0, length)) {
            output.push({&letter, 1}, 1);
            OutputDelta news = output.take();
            for (const ToolCallDelta& call : news.tool_calls)
                CHECK(call.id.empty() == call.name.empty());
            num_pieces += news.tool_calls.size();
            CHECK(news.begun_calls().size() + news.new_calls().size() == news.tool_calls.size());
            said.merge(std::move(news));
        }
        output.finish();
        CHECK(!output.has_news());
        REQUIRE(said.tool_calls.size() == 2);
        CHECK(num_pieces > 4);
        const bool is_whole = length == text.size();
        CHECK(output.has_called() == is_whole);
        CHECK(said.tool_calls[1].arguments == (is_whole ? "{\"a\": 1}" : "{\"a\": "));
        CHECK(said.content.empty());
    }
}

TEST_CASE("choice output: pieces of a call that goes on come before the calls that begin") {
    OutputDelta delta{.tool_calls = {{.index = 0, .arguments = "}"}, {.index = 1, .name = "f"}}};
    REQUIRE(delta.begun_calls().size() == 1);
    CHECK(delta.begun_calls()[0].arguments == "}");
    REQUIRE(delta.new_calls().size() == 1);
    CHECK(delta.new_calls()[0].index == 1);
    CHECK(OutputDelta{}.begun_calls().empty());
}
