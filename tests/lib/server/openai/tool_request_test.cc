// Tools of requests: what may be called, and faults that name the place.
#include "lib/server/openai/tool_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

const char* const kTwo = R"([
    {"type": "function", "function": {"name": "one", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "two", "strict": null}}])";

Result<ToolRequest> read(const char* tools, const char* choice = "null",
                         const char* parallel = "null") {
    const Json json[] = {Json::parse(tools), Json::parse(choice), Json::parse(parallel)};
    return read_tool_request({json[0], json[1], json[2]}, {.max_tools = 3});
}

std::string field_of(const Result<ToolRequest>& read) {
    if (read) return "";
    CHECK(read.fault().kind == ErrorKind::bad_data);
    return read.fault().field;
}

}  // namespace

TEST_CASE("tools of a request: who decides what is called") {
    auto tools = read(kTwo);
    REQUIRE(tools);
    CHECK(tools->use == ToolUse::automatic);
    CHECK(tools->offered.size() == 2);
    CHECK(tools->callable.size() == 2);
    CHECK(tools->offered[0].parameters == R"({"type":"object"})");
    CHECK(tools->several_calls);
    CHECK(!tools->is_strict);
    CHECK(read(kTwo, R"("auto")")->use == ToolUse::automatic);
    CHECK(read(kTwo, R"("none")")->use == ToolUse::none);
    CHECK(read(kTwo, R"("none")")->offered.size() == 2);
    CHECK(read(kTwo, R"("required")")->callable.size() == 2);
    for (const char* named : {R"({"type": "function", "function": {"name": "two"}})",
                              R"({"type": "function", "name": "two"})"}) {
        tools = read(kTwo, named);
        REQUIRE(tools);
        CHECK(tools->use == ToolUse::required);
        REQUIRE(tools->callable.size() == 1);
        CHECK(tools->callable[0].name == "two");
        CHECK(tools->offered.size() == 2);
    }
    CHECK(!read(kTwo, "null", "false")->several_calls);
    CHECK(read("null")->use == ToolUse::none);
    CHECK(read("[]", R"("auto")")->use == ToolUse::none);
    CHECK(read(R"([{"type": "function", "function": {"name": "f", "strict": true}}])")->is_strict);
}

TEST_CASE("tools of a request: some of them are allowed") {
    for (const char* choice : {R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
              "tools": [{"type": "function", "function": {"name": "two"}}]}})",
                               R"({"type": "allowed_tools", "mode": "auto",
              "tools": [{"type": "function", "name": "two"}, {"type": "function", "name": "two"}]})"}) {
        const auto tools = read(kTwo, choice);
        REQUIRE(tools);
        CHECK(tools->use == ToolUse::automatic);
        CHECK(tools->is_narrowed());
        REQUIRE(tools->callable.size() == 1);
        CHECK(tools->callable[0].name == "two");
        CHECK(tools->offered.size() == 2);
    }
    const auto both = read(kTwo, R"({"type": "allowed_tools", "mode": "required", "tools": [
        {"type": "function", "name": "two"}, {"type": "function", "name": "one"}]})");
    REQUIRE(both);
    CHECK(both->use == ToolUse::required);
    CHECK(!both->is_narrowed());
    for (
        const char* choice :
        {R"({"type": "allowed_tools"})",
         R"({"type": "allowed_tools", "mode": "auto", "tools": []})",
         R"({"type": "allowed_tools", "mode": "some", "tools": [{"type": "function", "name": "one"}]})",
         R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "name": "one"}]})",
         R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "x"}]})",
         R"({"type": "allowed_tools", "allowed_tools": 5})"}) {
        CHECK(field_of(read(kTwo, choice)) == "tool_choice");
    }
    CHECK(field_of(read("[]", R"({"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "function", "name": "one"}]})")) == "tool_choice");
}

TEST_CASE("tools of a request: what is wrong is named") {
    CHECK(field_of(read("5")) == "tools");
    CHECK(field_of(read("[1, 2, 3, 4]")) == "tools");
    CHECK(field_of(read(R"(["one"])")) == "tools[0].type");
    CHECK(read(R"([{"type": "web_search"}])").fault().code == "unsupported_parameter");
    CHECK(field_of(read(R"([{"type": "function", "function": {"name": ""}}])")) ==
          "tools[0].function.name");
    CHECK(field_of(read(R"([{"type": "function", "function": {"name": "f", "strict": 1}}])")) ==
          "tools[0].function.strict");
    CHECK(field_of(read("[]", R"("required")")) == "tool_choice");
    for (const char* choice :
         {R"("maybe")", "5", R"({"type": "function"})", R"({"type": "custom"})",
          R"({"type": "function", "function": {"name": "three"}})"}) {
        CHECK(field_of(read(kTwo, choice)) == "tool_choice");
    }
    CHECK(field_of(read(kTwo, "null", R"("yes")")) == "parallel_tool_calls");
}
