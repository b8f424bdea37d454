// References to items of kept responses.
#include "lib/server/responses/item_references.h"

#include <doctest/doctest.h>

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

const char* const kBody = R"({"id":"resp_a_b-1","output":[
    {"id":"rs_a_b-1_0","type":"reasoning","summary":[],"content":[]},
    {"id":"fc_a_b-1_1","type":"function_call","call_id":"c","name":"f","arguments":"{}"}]})";

struct Kept {
    Kept() { store.put("me", "resp_a_b-1", {kBody, "[]"}); }

    std::optional<Fault> resolve(Json& input, const std::string& owner = "me") {
        return resolve_item_references(input, owner, store);
    }

    ResponseStore store{ResponseStoreOptions{}};
};

}  // namespace

TEST_CASE("item references: kept items take their place") {
    Kept kept;
    Json input = Json::parse(R"([{"role":"user","content":"q"},
        {"type":"item_reference","id":"rs_a_b-1_0"}, {"id":"fc_a_b-1_1"},
        {"type":"function_call_output","call_id":"c","output":"1"},
        {"type":"item_reference","id":"rs_a_b-1_0"}])");
    const Json before = input;
    CHECK(!kept.resolve(input));
    const Json items = Json::parse(kBody)["output"];
    CHECK(input == Json::array({before[0], items[0], items[1], before[3], items[0]}));
}

TEST_CASE("item references: what is no reference stays") {
    Kept kept;
    for (const char* text :
         {R"("a text")", "null", R"([5, null, [], {"role":"user","id":"m","content":"a"}, {}])",
          R"([{"type":"message","id":"msg_1","role":"user","content":"a"}])"}) {
        Json input = Json::parse(text);
        CHECK(!kept.resolve(input));
        CHECK(input == Json::parse(text));
    }
}

TEST_CASE("item references: others' items and unknown ones are not found") {
    Kept kept;
    const auto fault_of = [&](const Json& id, const std::string& owner = "me") {
        Json input = {"text", {{"type", "item_reference"}, {"id", id}}};
        return kept.resolve(input, owner);
    };
    CHECK(!fault_of("fc_a_b-1_1"));
    CHECK(fault_of("fc_a_b-1_1", "you")->code == "item_not_found");
    for (const Json& id : {Json("fc_a_b-1_2"), Json("fc_a_b-2_0"), Json("fc_1"), Json("x"),
                           Json(""), Json("_"), Json("__"), Json(5), Json()}) {
        const auto fault = fault_of(id);
        REQUIRE(fault);
        CHECK(fault->kind == ErrorKind::bad_data);
        CHECK(fault->field == "input[1].id");
    }
}
