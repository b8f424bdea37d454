// Texts of a choice, split, counted and with ids of calls.
#include "lib/server/requests/choice_output.h"

#include <doctest/doctest.h>

#include <set>

using namespace nvllm;
using namespace nvllm::server;

namespace {

ChoiceOutput output_of(const OutputFormat& format, const std::string& request = "r",
                       size_t choice = 0) {
    auto parser = make_output_parser(format, {{{"f", ""}}, "<think>\n"});
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
